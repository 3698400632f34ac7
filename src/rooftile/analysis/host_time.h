// What the host needs to start a whole pass or training step.
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

// Whether nothing but the host starts the operations: engines replay decode steps from CUDA graphs.
bool waits_for_launches(Mode mode);

// Whether the host is expected to take longer to start the operations than the GPU to run them.
bool is_launch_bound(const HostEstimate& host, Seconds kernels);

}  // namespace rooftile
