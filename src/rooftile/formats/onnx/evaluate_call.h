// What the evaluation functions of single operators share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/formats/onnx/constant.h"
#include "rooftile/formats/onnx/evaluate.h"

namespace rooftile::onnx_format {

// What an evaluation function sees.
struct Call {
  const onnx::NodeProto& node;
  const std::vector<EvaluatedInput>& inputs;
  const onnx::TypeProto& type;
  int output;

  const Constant* input(std::size_t index) const {
    return index < inputs.size() ? inputs[index].constant : nullptr;
  }

  const onnx::AttributeProto* attribute(std::string_view name) const {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }

  std::int64_t integer(std::string_view name, std::int64_t fallback) const {
    const auto* found = attribute(name);
    return found != nullptr ? found->i() : fallback;
  }

  // The output's sizes, where inference knows them all and they are small.
  std::optional<Shape> output_shape() const {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return {};
    Shape shape;
    double count = 1;
    for (const auto& dim : type.tensor_type().shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() < 0) return {};
      shape.push_back(dim.dim_value());
      count *= static_cast<double>(dim.dim_value());
    }
    if (count > static_cast<double>(kMaxConstantElements)) return {};
    return shape;
  }

  int elem_type() const { return type.has_tensor_type() ? type.tensor_type().elem_type() : 0; }
};

// Element count of sizes that are small and not negative.
std::size_t count_of(const Shape& shape);

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

// The nearest 64-bit integer; nothing for unknown elements and beyond the range.
std::optional<std::int64_t> integer_of(Number number);

// An input list (opset 10 and later) or the attribute it used to be.
std::optional<Shape> integers(const Call& call, std::size_t index, std::string_view name);

// Operators that choose and reorder elements (evaluate_movement.cpp).
std::optional<Constant> gather(const Call& call);
std::optional<Constant> concat(const Call& call);
std::optional<Constant> slice(const Call& call);
std::optional<Constant> transpose(const Call& call);
std::optional<Constant> split(const Call& call);
std::optional<Constant> tile(const Call& call);

}  // namespace rooftile::onnx_format
