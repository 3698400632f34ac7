// What each step's time goes to.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/lost_work.h"
#include "rooftile/analysis/trace/steps.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// The steps between `bounds`, of which there is one more than steps, with the largest part of each
// and what makes some slower than others. `pieces` explain the gaps of at least that time,
// `beside_communication` parts of the time in which only collectives run.
// Steps of a serving engine on several kinds of work are unlike each other: none is slow.
Steps measure_steps(const StepMarks& marks, const std::vector<Nanoseconds>& bounds,
                    const Timeline& timeline, const GpuTrack& track,
                    const std::vector<IdlePiece>& pieces,
                    const std::vector<IdlePiece>& beside_communication);

// Takes steps at either end out of the marks and bounds: those with less than a tenth of the
// others' work, as the rest of a loop that ends with the recording; those from which on the
// recording lacks work; the first where start-up, first calls, the loader's first batch or memory
// allocated once make it 1.2 times as long as the median of the others; and of four steps or more
// any such first or last one. Says what makes them longer.
struct StepsApart {
  std::optional<StepApart> first, last;
};
StepsApart set_apart(StepMarks& marks, std::vector<Nanoseconds>& bounds, const Timeline& timeline,
                     const GpuTrack& track, const std::vector<IdlePiece>& pieces,
                     const LostWork& lost);

}  // namespace rooftile::trace
