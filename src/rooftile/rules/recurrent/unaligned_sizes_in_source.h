#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Recurrent layers of training scripts whose hidden size is no multiple of 8.
std::vector<Finding> unaligned_recurrent_sizes(const source::SourceFacts& facts);

}  // namespace rooftile
