// The order in which a graph's operators run. The standard asks for a sorted list; optimisers leave
// unsorted ones behind.
#pragma once

#include <optional>
#include <vector>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {

// Whether no node reads what a later node writes.
bool is_sorted(const onnx::GraphProto& graph);

// Indexes of the nodes, each after those it reads from; nothing when they form a cycle.
std::optional<std::vector<int>> sorted_nodes(const onnx::GraphProto& graph);

}  // namespace rooftile::onnx_format
