// scaled_dot_product_attention as PyTorch's exporters write it out.
#pragma once

#include <optional>

#include "rooftile/readers/onnx/exported_calls.h"
#include "rooftile/readers/onnx/pattern_graph.h"

namespace rooftile::onnx_reader_detail {

// The call around a Softmax: both operands of the scores scaled by the root of the scale, a mask
// added, rows without a key set to zero. Attention that a model writes out itself scales once and
// is not found: eager mode runs it as it is listed.
std::optional<ExportedCall> find_exported_attention(const PatternGraph& graph,
                                                    std::int32_t softmax);

}  // namespace rooftile::onnx_reader_detail
