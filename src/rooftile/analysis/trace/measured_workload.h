// Recorded operators as operations of a workload, so that every rule on shapes judges them with the
// time they really took.
#pragma once

#include <vector>

#include "rooftile/workload/trace_summary.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// One pass is a step where the recording has steps, else all of it. Operators without a neutral
// form, and kernels without an operator, become `other` with their time. Ranks run one program, so
// the operations are those of the lowest rank, in its order; `traces` holds all ranks, lowest
// first.
// An operation's time is the median of its calls.
Workload measured_workload(std::vector<TraceSummary> summaries);

// Whether a recorded program trains: by its operators, else by the names of kernels.
bool trains(const TraceSummary& trace);

// Of each operation all runs in one pass, as they add up over the trace, in the order of the
// workload; empty where that is none of the above.
std::vector<Seconds> measured_times_in_pass(const Workload& workload);

// Names the layers of a model in a recording: an operation of the recording takes the place
// (file, node, module) of the model's operation of the same body, dtype aside. Says in `notes` how
// many were found.
Workload join_model(Workload measured, const Workload& model);

}  // namespace rooftile
