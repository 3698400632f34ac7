// Attention that a recorded program runs as single operators.
#pragma once

#include <vector>

#include "rooftile/rules/rule.h"

namespace rooftile {

std::vector<Finding> unfused_attention_in_traces(const RuleInput& input);

}  // namespace rooftile
