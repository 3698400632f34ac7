// Where values come from, over the graph that flow.h works out: back through names, branches that a
// run takes by default, loops, attributes, arguments and parameters, results of the given files'
// functions.
//
// A search meets each node of that graph once, and the graph is finite: so it ends, however values
// go round in loops and recursion.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::script {

enum class SourceStep {
  found,
  stop,      // not further from here
  go_on,     // to what it may be; where that is not followed to what it is made of
  go_wide,   // to both
  receiver,  // of a call, to that alone
};

// Goes back from a value, the first operands first and each value once, and asks `judge` about the
// expression of each. Whether it said `found`. Operations are made of their operands, parts of the
// whole, calls of their arguments and the receiver, parameters of a lambda of what is passed beside
// it. What a `with` gives is not followed.
bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge);

// Nodes from which searches with one and the same judge have found nothing.
using SearchedInVain = std::unordered_set<std::uint32_t>;
// The same, not again through those, which it adds to: many searches take the time of one.
bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge,
                 SearchedInVain& in_vain);

// What the value may be: the expressions behind which it is not followed, as a library's call, an
// operation, a literal, the name of a parameter that no given file passes. Never empty; looked up
// when it is asked for again.
const std::vector<const source::Expr*>& origins(const source::SourceFacts& facts,
                                                const source::Expr& value);
// The only one; the expression itself where there are several.
const source::Expr& origin(const source::SourceFacts& facts, const source::Expr& value);

}  // namespace rooftile::script
