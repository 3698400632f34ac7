#include "rooftile/formats/onnx/schemas.h"

#include "onnx/defs/operator_sets.h"
#include "onnx/defs/operator_sets_ml.h"
#include "onnx/defs/operator_sets_preview.h"
#include "onnx/defs/operator_sets_training.h"
#include "rooftile/formats/onnx/load.h"

namespace rooftile::onnx_format {
namespace {

bool register_all() {
  onnx::RegisterOnnxOperatorSetSchema();
  onnx::RegisterOnnxMLOperatorSetSchema();
  onnx::RegisterOnnxPreviewOperatorSetSchema();
  onnx::RegisterOnnxTrainingOperatorSetSchema();
  return true;
}

}  // namespace

void register_operators() {
  static const bool registered = register_all();
  (void)registered;
}

int newest_opset() {
  register_operators();
  const auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  const auto found = ranges.find(onnx::ONNX_DOMAIN);
  return found == ranges.end() ? 0 : found->second.second;
}

const onnx::OpSchema* find_schema(const std::string& op, int version, const std::string& domain) {
  register_operators();
  return onnx::OpSchemaRegistry::Instance()->GetSchema(op, version, domain);
}

}  // namespace rooftile::onnx_format
