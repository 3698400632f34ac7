// Evaluates the integer arithmetic that exporters emit to compute shapes: Shape, Gather, Concat,
// Slice, Range … The library's own data propagation covers a part of it; without the rest, models
// with Expand or Range lose their shapes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/formats/onnx/constant.h"

namespace rooftile::onnx_format {

struct EvaluatedInput {
  const Constant* constant = nullptr;             // nullptr: unknown elements or no input
  const onnx::TensorShapeProto* shape = nullptr;  // of the input, where its rank is known
};

// The elements of the node's output number `output`, or nothing when the operator is not one of
// them, an input is missing or the result is large. `type` is the inferred type of that output.
std::optional<Constant> evaluate(const onnx::NodeProto& node,
                                 const std::vector<EvaluatedInput>& inputs,
                                 const onnx::TypeProto& type, int output = 0);

}  // namespace rooftile::onnx_format
