// Which training steps a wait for the GPU holds up, and what else they wait for.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The training loops on whose steps the statement runs; the only one of its programs where the way
// there is not seen, as to the forward of a module.
std::vector<const Loop*> step_loops_of(const SourceFacts& facts, const Statement& statement);
// Whether the host waits in each step of the loop by nature: for actions for an environment, the
// input of an algorithm for the host, or whether a scaled gradient overflowed. What other waits
// cost is then little.
bool waits_anyway(const SourceFacts& facts, const Loop& loop);

}  // namespace rooftile::source
