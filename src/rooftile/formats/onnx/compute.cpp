#include "rooftile/formats/onnx/compute.h"

#include <fmt/format.h>

#include "rooftile/formats/onnx/evaluate.h"

namespace rooftile::onnx_format {
namespace {

// Shape and Size look at an input's sizes, all others at its elements; nothing when an input is
// known only on the device.
std::optional<std::vector<EvaluatedInput>> evaluated_inputs(const std::vector<ValueId>& ids,
                                                            bool measures, Values& values) {
  std::vector<EvaluatedInput> inputs;
  for (const ValueId id : ids) {
    EvaluatedInput& input = inputs.emplace_back();
    if (id == kNoValue) continue;
    const Slot& source = values.slot(id);
    if (!measures) {
      if (source.value.origin == Origin::activation) return {};
      input.constant = values.constant(id);
    }
    if (source.has_type && source.type.has_tensor_type() && source.type.tensor_type().has_shape()) {
      input.shape = &source.type.tensor_type().shape();
    }
  }
  return inputs;
}

}  // namespace

void compute_constants(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                       const std::vector<ValueId>& outputs, Values& values) {
  if (node.op_type() == "Constant") {
    if (outputs.size() == 1 && outputs[0] != kNoValue) values.set_constant(node, outputs[0]);
    return;
  }
  const bool measures = node.op_type() == "Shape" || node.op_type() == "Size";
  const auto evaluated = evaluated_inputs(inputs, measures, values);
  if (!evaluated) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    Slot& target = values.slot(outputs[i]);
    if (auto constant = evaluate(node, *evaluated, target.type, static_cast<int>(i))) {
      target.constant = std::make_unique<Constant>(std::move(*constant));
    }
  }
}

std::optional<std::string> find_wrong_reshape(const onnx::NodeProto& node,
                                              const std::vector<ValueId>& inputs,
                                              const std::vector<ValueId>& outputs,
                                              const Values& values) {
  if (node.op_type() != "Reshape" || inputs.empty() || outputs.empty()) return {};
  const auto before = values.shape(inputs[0]);
  const auto after = values.shape(outputs[0]);
  if (!before || !after || element_count(*before) == element_count(*after)) return {};
  return fmt::format("{} elements reshaped to {}", element_count(*before), element_count(*after));
}

}  // namespace rooftile::onnx_format
