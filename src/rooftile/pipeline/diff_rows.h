// Operators and kernels of two sides, matched.
#pragma once

#include <vector>

#include "rooftile/findings/trace_diff.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// One rank of one side with the factors that make its sums a share of the side's mean.
struct WeightedTrace {
  const TraceSummary* summary = nullptr;
  double window_weight = 1;     // of what is counted in the window
  double recording_weight = 1;  // of what is counted in the whole recording
};
using TraceSide = std::vector<WeightedTrace>;

// Fills ops, kernels, same_ops and same_kernels; `span` must be known.
void add_changed_rows(const TraceSide& before, const TraceSide& after, TraceDiff& diff);

// After over before of the kernels that both sides run equally often, weighted by time: their
// median. 1 where there are none.
double common_kernel_ratio(const TraceSide& before, const TraceSide& after);

}  // namespace rooftile
