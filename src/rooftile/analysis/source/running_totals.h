// Sums that a loop keeps from pass to pass: where they begin.
#pragma once

#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The variable or attribute that is added to: `total` of total["x"].
std::string_view root_name(const Expr* expr);
// Whether the total starts anew in each pass of the loop, or with each pass of a loop around it
// that goes over the data, so that it holds a few steps at most.
bool starts_anew(const SourceFacts& facts, const Loop& loop, const Statement& sum,
                 std::string_view total);

}  // namespace rooftile::source
