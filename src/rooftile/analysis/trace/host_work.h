// What the host does for long instead of launching, and what the trace calls it.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

// Adds the stretches of a millisecond or more in which no thread launches work or waits. One inside
// a runtime call is module_loading, and so is one in an operator that takes far longer than usual
// to start a kernel for the first time, or that ends as a compiled module is loaded; others are
// host_work. `waits` must be disjoint and in order.
void add_other_work(const Timeline& timeline, const Links& links, std::vector<HostWait>& waits);

// What libraries allocate as they are set up is loading: in the first call of a cuBLAS operator,
// and of a cuDNN operator at each shape.
void set_library_start_apart(const Timeline& timeline, const Links& links,
                             std::vector<HostWait>& waits);

// Such stretches that left the GPU idle, by name: the innermost function of the user's code, range,
// operator or call that was active for most of the stretch. Those that begin in `steps`.
std::vector<HostWorkUse> tabulate_other_work(const Timeline& timeline, const Links& links,
                                             const std::vector<HostWait>& waits,
                                             const Window& steps);

// What the host did for a tenth of a part or more, waits included, longest first.
std::vector<HostWorkUse> tabulate_all_work(const Timeline& timeline, const Links& links,
                                           const std::vector<HostWait>& waits, const Window& part);

}  // namespace rooftile::trace
