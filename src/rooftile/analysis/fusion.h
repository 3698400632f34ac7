// Runs of memory-bound operations that a compiler can compute in one kernel each.
#pragma once

#include <vector>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct FusibleRun {
  std::vector<std::size_t> ops;  // at least two, in order, connected through the data flow
  Bytes before, after;           // traffic of one run of them all, apart and fused
};

// Elementwise operations, casts, softmaxes and normalisations joined by the values they pass on.
// A norm whose statistics span the batch or the image must see its whole input first, so nothing
// fuses into it, only behind it. An activation between
// kernels that wait for each other is computed by each of its readers. Operations in `excluded` (a
// flag each) are left alone.
std::vector<FusibleRun> find_fusible_runs(const Workload& workload, const Graph& graph,
                                          const std::vector<bool>& excluded);

}  // namespace rooftile
