// Launches at a recording's end whose work it lacks, as where the profiler stops before the GPU.
#pragma once

#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct LostWork {
  std::int64_t launches = 0, all = 0;  // of kernels
  Nanoseconds from = 0;                // the first of them
};

// The launches after the last one whose work was recorded.
LostWork lost_work(const Timeline& timeline, const Links& links);

// Whether they are so many that totals are not of the whole; a few are the recorder's end.
bool ends_early(const LostWork& lost);

}  // namespace rooftile::trace
