// What each step's time goes to.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// The steps between `bounds`, of which there is one more than steps, with the largest part of each
// and what makes some slower than others. `pieces` explain the gaps of at least that time.
Steps measure_steps(StepSource source, const std::vector<Nanoseconds>& bounds,
                    const Timeline& timeline, const GpuTrack& track,
                    const std::vector<IdlePiece>& pieces);

}  // namespace rooftile::trace
