#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Programs that train a convolutional network under autocast without channels_last.
std::vector<Finding> programs_without_channels_last(const source::SourceFacts& facts);

}  // namespace rooftile
