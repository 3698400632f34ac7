// A recording without what happens once in a program.
#pragma once

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Whether start-up and first calls take most of the window: what it shows is no steady state.
bool is_mostly_set_up(const TraceSummary& trace);

// The window without start-up and first calls, where those take a tenth of it or more; else the
// window.
Seconds steady_span(const TraceSummary& trace);

}  // namespace rooftile
