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

// What one operation waits for, as a reader understands it. The time model calls math-bound what
// its slowest part computes, with padded tiles, slow kernels and idle SMs; here a kernel whose
// arithmetic would take less than a fifth of its time at the peak waits for memory, if its bytes
// take as much, else for latency. And one that feeds its tiles from L2 is math-bound, if its
// arithmetic takes a fifth of the time at the peak and its bytes from DRAM do not.
Bound limit_of(const Op& op, const OpAnalysis& analysis, const Device& device);

// Counts the whole time of an operation, all its runs, for what it waits for.
BoundShare bound_share(const Workload& workload, const Analysis& analysis, const Device& device);

}  // namespace rooftile
