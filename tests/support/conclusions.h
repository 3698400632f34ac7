// What is concluded of an input, as lines: facts, queries, work, time, memory, summaries, findings.
// Numbers have three digits, and of sentences only the numbers are there.
#pragma once

#include <string>
#include <vector>

#include "rooftile/rooftile.h"

namespace rooftile {

// What is known of it as a whole.
std::string workload_line(const Workload& workload);

// Its operations with their work and time, where it has any, and memory.
std::vector<std::string> operation_lines(const Workload& workload, const Analysis& analysis,
                                         const Device& device);

// A summary without what is empty or zero.
std::vector<std::string> summary_lines(const TraceSummary& summary);

std::vector<std::string> finding_lines(const std::vector<Finding>& findings);

// All of it.
std::vector<std::string> conclusions(const Workload& workload, const TimeModel& model);

}  // namespace rooftile
