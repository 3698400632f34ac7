#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Loops of training scripts that run a recurrent cell step by step over inputs known before.
std::vector<Finding> unrolled_cells_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
