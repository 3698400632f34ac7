#pragma once

#include <vector>

#include "rooftile/findings/finding.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// Attention layers of training scripts with heads under 32 or of no multiple of 8.
std::vector<Finding> narrow_heads_in_source(const source::SourceFacts& facts);

// Widths of gated MLPs in training scripts by int(8 * d / 3) without rounding.
std::vector<Finding> odd_swiglu_widths_in_source(const source::SourceFacts& facts);

}  // namespace rooftile
