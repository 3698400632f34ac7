// Two recordings of a program side by side.
#pragma once

#include <span>

#include "rooftile/findings/trace_diff.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Each side holds one summary per rank. Ranks are paired by number, a single recording on each side
// whatever its rank; others are left out and noted. Operators are matched by name, direction and
// shapes, kernels by name and then by operator. Nothing to pair gives an empty diff with a note.
TraceDiff diff_traces(std::span<const TraceSummary> before, std::span<const TraceSummary> after);

}  // namespace rooftile
