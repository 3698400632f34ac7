// Activations and norms as PyTorch's exporters write them out.
#pragma once

#include <optional>

#include "rooftile/readers/onnx/exported_calls.h"
#include "rooftile/readers/onnx/pattern_graph.h"

namespace rooftile::onnx_reader_detail {

// GELU around an Erf or Tanh; SiLU, Hardswish and Mish around what they multiply their input with.
std::optional<ExportedCall> find_exported_activation(const PatternGraph& graph, std::int32_t node);

// Layer and RMS norms around the mean of the squares, group norms around an InstanceNormalization.
std::optional<ExportedCall> find_exported_norm(const PatternGraph& graph, std::int32_t node);

// The gates of an LSTM cell behind the Split of the sum of its two products.
std::optional<ExportedCall> find_exported_cell(const PatternGraph& graph, std::int32_t split);

// x*cos + rotated(x)*sin around the Concat that rotates the halves of x.
std::optional<ExportedCall> find_exported_rotary(const PatternGraph& graph, std::int32_t concat);

}  // namespace rooftile::onnx_reader_detail
