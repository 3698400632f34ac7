// Kernels of a recording that no rule knows.
#pragma once

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Of the tables' kernels.
struct UnknownKernels {
  Seconds all;
  Seconds own;                         // the program's
  Seconds other;                       // recognised, of no kind
  Seconds graphs;                      // CUDA graphs that were recorded as a whole
  const KernelUse* longest = nullptr;  // of the program's own
};

UnknownKernels unknown_kernels(const TraceSummary& summary);

}  // namespace rooftile
