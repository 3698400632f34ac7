// Times of recorded operations by the kernels that ran, not by their shapes alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/analysis/time/time_model.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct AsRun {
  std::optional<TimeEstimate> time;  // of one run; empty where the model abstains
  std::string family;                // of its kernels
  Seconds modelled;                  // expected time before the corrections of profiles
  Seconds launch;                    // of that
};

struct RunTimes {
  std::vector<AsRun> ops;  // one per operation of the workload, in its order
  // Over those of the measured tables, by the trace's own kernels: the clock, and what a kernel
  // takes that does next to nothing.
  double clock = 1, launch = 1;
};

// Empty without a trace.
RunTimes times_as_run(const Workload& workload, const TimeModel& model);

}  // namespace rooftile
