// Renderers of what changed between two recordings.
#pragma once

#include <string>

#include "rooftile/findings/trace_diff.h"
#include "rooftile/reports/reports.h"

namespace rooftile {

// The verdict, where the time went on both sides, and the operators and kernels that changed.
std::string render_trace_diff_text(const TraceDiff& diff, const TextStyle& style = {});
std::string render_trace_diff_json(const TraceDiff& diff);  // docs/formats/diff.md

}  // namespace rooftile
