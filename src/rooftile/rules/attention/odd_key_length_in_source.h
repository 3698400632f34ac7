#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Tokenizers and collators of training scripts that pad to lengths which are not multiples of 8.
std::vector<Finding> unaligned_padding_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
