// What a workload's time waits for.
#pragma once

#include "rooftile/analysis/analysis.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Shares of the time that is known; they add up to 1, or are all 0 where no operation has a time.
struct BoundShare {
  double math = 0, memory = 0, latency = 0;
  double other = 0;  // communication, and recorded time of operations the model does not know

  bool operator==(const BoundShare&) const = default;
};

// Counts the whole time of an operation, all its runs, for what it waits for most.
BoundShare bound_share(const Workload& workload, const Analysis& analysis);

}  // namespace rooftile
