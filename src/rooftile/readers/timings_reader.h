// Measured times as CSV, in memory. docs/formats/timings.md describes the columns.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/result.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Any text gives operations with Op::measured, or an error with its line; `path` is named in both.
Result<Workload> parse_timings(std::string_view text, const std::string& path);

}  // namespace rooftile
