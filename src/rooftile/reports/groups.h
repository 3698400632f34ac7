// Findings in scripts that one change mends are shown as one, with all of its places.
#pragma once

#include <string>
#include <vector>

#include "rooftile/findings/report.h"

namespace rooftile {

// Findings of one rule and level in one file with the same fix, or waits for the GPU in the steps
// of one loop; the one that ranks first comes first. Findings with a saving, and those outside of
// scripts, stand alone.
using FindingGroup = std::vector<const Finding*>;

// In the order of their first findings; those below `least` are left out.
std::vector<FindingGroup> grouped(const std::vector<Finding>& findings, Level least);

// Operations or places concerned, of all together.
std::int64_t count_of(const FindingGroup& group);

// Whether they are waits in the steps of one loop, each with a fix of its own.
bool is_step_of_waits(const FindingGroup& group);

// The other places, one a line: "Also at lines 105, 106, 107." where all say the same, else each
// with its code: "Also at line 105: acc += correct.item()". Empty for a single finding.
std::vector<std::string> other_places(const FindingGroup& group);

}  // namespace rooftile
