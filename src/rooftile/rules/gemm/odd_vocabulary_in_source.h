#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Vocabularies of language models in training scripts that are not multiples of 8.
std::vector<Finding> odd_vocabularies_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
