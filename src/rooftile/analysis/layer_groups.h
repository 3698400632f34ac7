// Operations of equal shape: a layer, its repeats through the network and their gradients.
#pragma once

#include <functional>
#include <vector>

#include "rooftile/analysis/analysis.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Indices into Workload::ops, in order; all have the same body and dtypes, phases differ.
struct LayerGroup {
  std::vector<std::size_t> ops;
  double time_share = 0;  // of the whole, all runs of all its operations
};

// Groups the operations that `wanted` accepts, in order of their first operation.
std::vector<LayerGroup> group_equal_layers(const Workload& workload, const Analysis& analysis,
                                           const std::function<bool(const Op&)>& wanted);

// Runs of the group's operations of one phase.
double count_runs(const Workload& workload, const LayerGroup& group, Phase phase);

}  // namespace rooftile
