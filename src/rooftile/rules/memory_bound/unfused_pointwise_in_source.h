// What the sources say of memory_bound/unfused-pointwise.
#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

std::vector<Finding> unfused_pointwise_functions(const source::SourceFacts& facts);

}  // namespace rooftile
