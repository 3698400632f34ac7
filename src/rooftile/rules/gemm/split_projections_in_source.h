#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Linear layers of training scripts that read the same value one by one, a finding per class.
std::vector<Finding> split_projections_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
