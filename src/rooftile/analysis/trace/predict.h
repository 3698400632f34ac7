// What the removal of each cause would save, by running the recording again without it.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/replay.h"
#include "rooftile/analysis/trace/steps.h"
#include "rooftile/analysis/trace/waits.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct Predictions {
  std::vector<Prediction> remedies;
  std::optional<Seconds> replayed_span;
  std::optional<double> kernel_time_share, copy_time_share;
};

// `marks` may be empty. `steps` is the window's part on the host, `time` the split of the window,
// which begins `late` after it.
Predictions predict(Replay& replay, const Timeline& timeline, const Links& links,
                    const std::vector<HostWait>& waits, const StepMarks& marks, const Window& steps,
                    Nanoseconds late, const TimeBreakdown& time);

}  // namespace rooftile::trace
