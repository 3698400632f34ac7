// Linear layers that read the same value: query, key and value, or gate and up.
#pragma once

#include <cstddef>
#include <vector>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Groups of forward layers that could be one, by their indices. Routers, whose outputs are scores,
// and low-rank adapters stay apart.
std::vector<std::vector<std::size_t>> layers_of_one_input(const Workload& workload,
                                                          const Graph& graph);

// Such a group as one layer, the outputs side by side.
Op side_by_side(const Workload& workload, const std::vector<std::size_t>& layers);

// Puts one layer in the place of each group within a module, as serving engines do when they load
// a model (vLLM: QKVParallelLinear, MergedColumnParallelLinear).
void join_layers_of_one_input(Workload& workload);

}  // namespace rooftile
