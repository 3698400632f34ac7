#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Convolutions of training scripts with literal channels that are not multiples of 8, one finding
// per class.
std::vector<Finding> unaligned_channels_in_source(const source::SourceFacts& facts);

// Convolutions with literal groups of fewer than 8 channels that are not depthwise.
std::vector<Finding> narrow_groups_in_source(const source::SourceFacts& facts);

// The first convolutions, of 1 to 3 input channels, one finding per class.
std::vector<Finding> few_input_channels_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
