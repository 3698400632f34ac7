#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Loops over time of training scripts with the product of the known inputs inside.
std::vector<Finding> step_by_step_projections(const source::SourceFacts& facts);

}  // namespace rooftile
