// What the conditions and context managers around a statement mean.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The guards that `condition` being true, or false with `negated`, puts on a statement: one for
// each operand of an `and`.
std::vector<Guard> guards_of_condition(const SourceFacts& facts, const Expr* condition,
                                       const Statement* statement, bool negated);
// Of one item of a with statement, or of a decorator (statement null).
Guard guard_of_manager(const Expr* manager, const Statement* statement);

}  // namespace rooftile::source
