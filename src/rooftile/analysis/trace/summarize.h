// A recording reduced to what rules and reports read.
#pragma once

#include "rooftile/workload/timeline.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Total: every timeline gives a summary. What a number means and how it is found:
// docs/traces.md.
TraceSummary summarize(const Timeline& timeline);

}  // namespace rooftile
