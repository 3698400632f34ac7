// Where values come from, over the SSA graphs of all files: back through names, branches, loops,
// parts of values, arguments and parameters.
#pragma once

#include <functional>

#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

enum class SourceStep { found, stop, go_on };

// Goes back from a value, the first operands first and each value once, and asks `judge` about the
// expression of each. Whether it said `found`. Parameters lead to what callers pass, those of a
// lambda also to what is passed beside it; calls lead to their arguments and to the receiver. What
// is stored in attributes, and what a `with` gives, is not followed.
bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge);

}  // namespace rooftile::script
