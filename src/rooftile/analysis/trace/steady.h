// A recording without what happens once in a program.
#pragma once

#include <initializer_list>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Idle time of the window by these causes.
Seconds idle_of(const TraceSummary& trace, std::initializer_list<IdleCause> causes);
// That of start-up and first calls.
Seconds set_up_of(const TraceSummary& trace);
// Whether start-up and first calls take most of the window: what it shows is no steady state.
bool is_mostly_set_up(const TraceSummary& trace);

// Whether nothing repeats on a GPU that is mostly idle: hardly a kernel runs twice, as in a
// program's start or a single first pass.
bool runs_once(const TraceSummary& trace);

// Time of the window for which the recording shows no cause: work that started late although the
// GPU seemed free, and kernels that were held up, as beside another process on it.
Seconds unexplained_time(const TraceSummary& trace);
// Whether that is so much that the times of kernels say little either: they may have shared the
// GPU.
bool is_mostly_unexplained(const TraceSummary& trace);

// The window without start-up and first calls, where those take a tenth of it or more; else the
// window.
Seconds steady_span(const TraceSummary& trace);

}  // namespace rooftile
