// The elementwise part of shape arithmetic, with broadcasting.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/formats/onnx/constant.h"
#include "rooftile/formats/onnx/evaluate.h"

namespace rooftile::onnx_format {

// The tensor repeated to `shape` by ONNX's broadcasting rules; nothing when it does not fit.
std::optional<Constant> broadcast(const Constant& tensor, const Shape& shape);

// Unary and binary arithmetic, comparisons, logic and Where. Unknown elements stay unknown.
std::optional<Constant> evaluate_elementwise(std::string_view op,
                                             const std::vector<EvaluatedInput>& inputs,
                                             int elem_type);

}  // namespace rooftile::onnx_format
