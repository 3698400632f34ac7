// One verdict where a script and a trace of its run say the same.
#pragma once

#include <vector>

#include "rooftile/findings/finding.h"

namespace rooftile {

// Findings in scripts get the time that the trace shows for their rule, and take the place of its
// finding there. Advice on what a detector for traces looked for and did not find becomes
// information; errors stay. `findings` are those of all rules, ranked; the result is ranked again
// by what is saved. `on_known_gpu`: all detectors ran, and not only those for any GPU.
std::vector<Finding> join_evidence(std::vector<Finding> findings, bool on_known_gpu);

}  // namespace rooftile
