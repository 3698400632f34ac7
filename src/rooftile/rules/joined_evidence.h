// One verdict where a script and a recording of its run say the same.
#pragma once

#include <vector>

#include "rooftile/findings/finding.h"

namespace rooftile {

// Findings in scripts get the time that the recording shows for their cause, and take the place of
// its finding. Advice on what the recording shows no cost of becomes information; errors stay.
// `findings` are those of all rules, ranked; the result is ranked again by what is saved.
std::vector<Finding> join_evidence(std::vector<Finding> findings);

}  // namespace rooftile
