// What stands around a statement in its own function: guards, and loops that are entered.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// One of the two.
struct PathStep {
  Guard guard;
  const Loop* loop = nullptr;
};
using Path = std::vector<PathStep>;  // outermost first

// From the top of the function down to the statement; `if …: continue` above guards what follows.
const Path& path_to(const SourceFacts& facts, const Statement& statement);
// The same, with the conditions inside of the expression: `x if c else y`, `c and x`. The header of
// an `if`, `for` or `with` runs outside of what it guards.
Path path_to(const SourceFacts& facts, const Call& call);
// Those conditions alone.
std::vector<Guard> inline_guards(const SourceFacts& facts, const Call& call);

}  // namespace rooftile::source
