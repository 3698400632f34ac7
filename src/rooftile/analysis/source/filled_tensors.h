// What is written into a tensor between the place where it is made and its use.
#pragma once

#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// `mask[i] = label` for a mask that is made above and moved below.
bool is_filled_between(std::string_view variable, const Statement& made, const Statement& used);
// `for i in range(n): mask[i] = label` between: a loop fills it, with whatever.
bool is_filled_in_loop(std::string_view variable, const Statement& made, const Statement& used);

}  // namespace rooftile::source
