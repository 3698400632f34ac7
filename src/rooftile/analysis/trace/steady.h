// A recording without what happens once in a program.
#pragma once

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// The window without start-up and first calls, where those take a tenth of it or more; else the
// window.
Seconds steady_span(const TraceSummary& trace);

}  // namespace rooftile
