// A whole pass or training step beyond its kernels: what the host needs, and what memory holds.
#pragma once

#include "rooftile/base/units.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Host time to start every operation once, in PyTorch without compilation or CUDA graphs. Where it
// is longer than the kernels, the GPU waits for the host.
struct HostEstimate {
  double launches = 0;  // operations, repeats counted; a compiler or a runtime starts fewer
  Range<Seconds> time;
};
HostEstimate estimate_host(const Workload& workload);

// Bytes of a training step, or of the weights and the largest activations of an inference. Ranges
// cover what the workload does not say: whether fp32 copies of 16-bit weights exist, which
// activations a framework keeps, fragmentation left out.
struct MemoryEstimate {
  Bytes weights;
  Range<Bytes> gradients, optimizer, activations;

  Range<Bytes> total() const {
    const Bytes none = weights;
    return Range<Bytes>{none, none, none} + gradients + optimizer + activations;
  }
};
MemoryEstimate estimate_memory(const Workload& workload);

}  // namespace rooftile
