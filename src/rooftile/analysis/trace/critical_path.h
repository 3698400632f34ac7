// The chain of what each step waited for, from its end back to its start.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/analysis/trace/replay.h"
#include "rooftile/analysis/trace/waits.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// Walks back from the end of each step between `bounds`: an activity began when its launch came
// through, or when the one before it on its stream or one on another stream ended; the host came to
// a launch after its earlier calls, or after a wait that ended with an activity. The pieces of a
// step add up to its length. `pieces` explain the gaps by `waits`, with which `replay` was made.
// The host's time is that of the operator or range it passes in; before that nothing names it.
// Empty without GPU work or without runtime calls.
CriticalPath critical_path(const Timeline& timeline, const Links& links, const GpuTrack& track,
                           const std::vector<HostWait>& waits, const std::vector<IdlePiece>& pieces,
                           const Replay& replay, PythonSites& sites,
                           const std::vector<Nanoseconds>& bounds);

}  // namespace rooftile::trace
