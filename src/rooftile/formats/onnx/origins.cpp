#include "rooftile/formats/onnx/origins.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {
namespace {

using onnx::NodeProto;

bool is_random(std::string_view op) {
  constexpr std::array<std::string_view, 4> kRandom{"RandomNormal", "RandomUniform", "Bernoulli",
                                                    "Multinomial"};
  return std::any_of(kRandom.begin(), kRandom.end(),
                     [op](std::string_view name) { return op.starts_with(name); });
}

void bind_graph(const AttributeBinding& binding, onnx::GraphProto& graph);

void bind_in_place(const AttributeBinding& binding, NodeProto& node) {
  auto& attributes = *node.mutable_attribute();
  for (int i = attributes.size() - 1; i >= 0; --i) {
    auto& attribute = *attributes.Mutable(i);
    if (attribute.has_g()) bind_graph(binding, *attribute.mutable_g());
    if (attribute.ref_attr_name().empty()) continue;
    const auto found = binding.find(attribute.ref_attr_name());
    if (found == binding.end()) {
      attributes.DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute.name();
    attribute = *found->second;
    attribute.set_name(name);
  }
}

void bind_graph(const AttributeBinding& binding, onnx::GraphProto& graph) {
  for (auto& node : *graph.mutable_node()) bind_in_place(binding, node);
}

bool needs_binding(const NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& attribute) {
    return !attribute.ref_attr_name().empty() ||
           (attribute.has_g() &&
            std::any_of(attribute.g().node().begin(), attribute.g().node().end(), needs_binding));
  });
}

}  // namespace

Origin origin_of(const NodeProto& node, const std::string& domain,
                 const std::vector<const Value*>& inputs) {
  const std::string& op = node.op_type();
  if (domain.empty() && (op == "Shape" || op == "Size")) return Origin::shape_data;
  Origin origin = Origin::constant;
  bool any = false;
  for (const Value* value : inputs) {
    if (value == nullptr) continue;
    any = true;
    if (value->origin == Origin::activation) return Origin::activation;
    if (value->origin == Origin::shape_data) origin = Origin::shape_data;
  }
  if (!any && !domain.empty()) return Origin::activation;
  return is_random(op) ? Origin::activation : origin;
}

const char* skip_reason(Origin origin) {
  switch (origin) {
    case Origin::constant:
      return "constant folding";
    case Origin::shape_data:
      return "shape computation";
    case Origin::activation:
      break;
  }
  return "operator without outputs";
}

bool is_large_float(const onnx::TypeProto& type) {
  constexpr double kLarge = 4096;
  if (!type.has_tensor_type()) return false;
  const int elem_type = type.tensor_type().elem_type();
  const bool is_float =
      elem_type == onnx::TensorProto::FLOAT || elem_type == onnx::TensorProto::FLOAT16 ||
      elem_type == onnx::TensorProto::BFLOAT16 || elem_type == onnx::TensorProto::DOUBLE;
  if (!is_float || !type.tensor_type().has_shape()) return false;
  double count = 1;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    count *= dim.has_dim_value() ? static_cast<double>(dim.dim_value()) : 1.0;
  }
  return count > kLarge;
}

bool keeps_root(const std::string& op) {
  constexpr std::array<std::string_view, 10> kNames{
      "Identity", "Cast",      "Transpose", "DequantizeLinear", "Reshape",
      "Squeeze",  "Unsqueeze", "Flatten",   "Gather",           "Slice"};
  return std::find(kNames.begin(), kNames.end(), op) != kNames.end();
}

bool has_graph_attribute(const NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [](const auto& attribute) { return attribute.has_g(); });
}

AttributeBinding bind_attributes(const onnx::FunctionProto& function, const NodeProto& caller) {
  AttributeBinding binding;
  for (const auto& attribute : function.attribute_proto()) binding[attribute.name()] = &attribute;
  for (const auto& attribute : caller.attribute()) binding[attribute.name()] = &attribute;
  return binding;
}

const NodeProto& bind_node(const NodeProto& node, const AttributeBinding& binding,
                           std::deque<NodeProto>& bound) {
  if (!needs_binding(node)) return node;
  NodeProto& copy = bound.emplace_back(node);
  bind_in_place(binding, copy);
  return copy;
}

}  // namespace rooftile::onnx_format
