#include "rooftile/formats/onnx/functions.h"

#include <algorithm>

namespace rooftile::onnx_format {
namespace {

std::string function_id(const std::string& domain, const std::string& name,
                        const std::string& overload) {
  return normal_domain(domain) + ":" + name + ":" + overload;
}

}  // namespace

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

Functions::Functions(const onnx::ModelProto& model) {
  for (const auto& function : model.functions()) {
    by_id_[function_id(function.domain(), function.name(), function.overload())] = &function;
  }
}

const onnx::FunctionProto* Functions::find(const onnx::NodeProto& node) const {
  if (by_id_.empty()) return nullptr;
  const auto found = by_id_.find(function_id(node.domain(), node.op_type(), node.overload()));
  return found == by_id_.end() ? nullptr : found->second;
}

std::size_t Functions::opened_nodes(const onnx::FunctionProto& function, std::size_t limit,
                                    int depth) {
  const auto [entry, is_new] = opened_.try_emplace(&function, 0);
  if (!is_new || depth >= kMaxFunctionDepth) return entry->second;
  std::size_t nodes = 0;
  for (const onnx::NodeProto& node : function.node()) {
    const onnx::FunctionProto* callee = find(node);
    nodes += 1 + (callee == nullptr ? 0 : opened_nodes(*callee, limit, depth + 1));
    nodes = std::min(nodes, limit + 1);
  }
  return opened_[&function] = nodes;
}

}  // namespace rooftile::onnx_format
