// Attention masks, found where they are computed.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

// What a node reads, for the question below; without a value where left out.
struct MaskInput {
  const Value* value = nullptr;
  std::optional<Shape> shape;
};

// Whether the operator can be part of a mask's computation: a cheap look before the question below.
bool may_compute_mask(std::string_view op);

// Whether the node's output hides, or shows, the keys behind each query's own position: a triangle,
// a comparison of positions along the last two axes, or arithmetic on such a mask.
bool hides_later_keys(const onnx::NodeProto& node, const std::vector<MaskInput>& inputs);

// The same of a stored tensor, by the name that PyTorch's exporter gives a folded comparison of
// positions ("le_3") or a triangle.
bool is_folded_triangle(const onnx::TensorProto& tensor);

}  // namespace rooftile::onnx_format
