// Which conditions give the same answer in each pass of a loop.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether an expression of `statement` keeps its value while the loop around it runs: settings,
// what was set before the loop, whether something was given.
bool is_steady(const SourceFacts& facts, const Expr& expr, const Statement* statement);

}  // namespace rooftile::source
