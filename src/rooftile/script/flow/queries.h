// Questions about where values come from, answered on the SSA graphs.
#pragma once

#include <string_view>

#include "rooftile/script/flow/known_value.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

// What a name stands for: the expression that the one assignment reaching it gives, through other
// names; the expression itself where there are several, or none.
const source::Expr& written(const source::SourceFacts& facts, const source::Expr& expr);

// Whether a value is made of what a variable of its function was before, also through temporaries
// and branches.
bool is_made_of(const source::SourceFacts& facts, const source::Expr& value,
                std::string_view variable);

// What an expression of a function evaluates to where a call enters that function; with null, what
// it does over all calls.
KnownValue known_value(const source::SourceFacts& facts, const source::Expr& expr,
                       const source::Call* entered_by);

}  // namespace rooftile::script
