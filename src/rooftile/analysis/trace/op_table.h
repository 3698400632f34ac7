// Which operators the kernels belong to, added up by operator, shape and place.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct OpTable {
  std::vector<OpUse> ops;
  std::vector<KernelUse> orphans;
  Seconds kernel_time, kernel_time_in_steps, unclassified_time, leftover_time;
  std::int64_t kernels = 0, leftover = 0;
};

// Every kernel that starts in the window once, but for those left from before the recording; the
// sums are of the whole recording where they do not say otherwise. Rows beyond a limit are added up
// in one called "other". Operators' time on the host is that without `first_calls`, that of kernels
// is without what they take `beyond` the usual time.
OpTable tabulate_ops(const Timeline& timeline, const Links& links, const KernelNames& names,
                     PythonSites& sites, const Window& window, const Cover& first_calls = {},
                     const std::vector<Nanoseconds>& beyond = {});

// Operators of a recording without a GPU, by their time on the host: the outermost whose arguments
// tell an operation. Their times say nothing about a GPU, so the operations are not measured.
std::vector<OpUse> tabulate_host_ops(const Timeline& timeline, const Links& links,
                                     PythonSites& sites);

}  // namespace rooftile::trace
