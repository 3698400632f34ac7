// What the conditions and context managers around a statement mean.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The guards that `condition` being true, or false with `negated`, puts on a statement: one for
// each operand of an `and`.
std::vector<Guard> guards_of_condition(const SourceFacts& facts, const Expr* condition,
                                       const Statement* statement, bool negated);
// Of one item of a with statement, or of a decorator (statement null).
Guard guard_of_manager(const Expr* manager, const Statement* statement);
// Whether gradients are off or on inside of it; nothing where it leaves them as they are.
std::optional<bool> turns_gradients_off(const Guard& guard);

}  // namespace rooftile::source
