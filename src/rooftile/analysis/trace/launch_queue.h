// How far the host is ahead of the GPU, how fast it is, and how short the kernels are, over time.
#pragma once

#include <optional>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// Of the activities in `track`; `whole` is all of it in time. Empty without a recorded launch.
std::optional<LaunchQueue> launch_queue(const Timeline& timeline, const Links& links,
                                        const GpuTrack& track, const Window& whole);

// Whether nearly every launch call returns after its kernel has ended, long kernels among them: the
// program was recorded with CUDA_LAUNCH_BLOCKING=1 or under a debugger.
bool launches_block(const Timeline& timeline, const Links& links, const GpuTrack& track);

// TraceSummary::lightest_operator.
Seconds lightest_operator(const Timeline& timeline);

}  // namespace rooftile::trace
