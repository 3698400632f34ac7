#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Attention that training scripts compute from products and a softmax, a finding per class.
std::vector<Finding> unfused_attention_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
