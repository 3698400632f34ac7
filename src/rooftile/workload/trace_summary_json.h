// The file form of a trace summary. docs/formats/trace_summary.md describes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// JSON that reads back to the same summary. An operation that the text form cannot hold is left
// out.
std::string write_trace_summary(const TraceSummary& summary);

// Strict: an unknown or missing key (but for keys that earlier versions did not write), or a value
// of another type, is an error that names its place. Text beyond 64 MiB, 4 million values or 16
// levels is refused. `path` is named in errors.
Result<TraceSummary> parse_trace_summary(std::string_view text, const std::string& path);

// The same for summaries that follow one another, as `cat` joins files of them.
Result<std::vector<TraceSummary>> parse_trace_summaries(std::string_view text,
                                                        const std::string& path);

// Whether a file begins like one: `head` holds its first bytes.
bool is_trace_summary(std::string_view head);

}  // namespace rooftile
