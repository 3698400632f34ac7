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
// Whether the host reads anything of the GPU in each step of the loop, or waits anyway: the launch
// queue is then empty before the next step begins.
bool empties_queue(const SourceFacts& facts, const Loop& loop);

// Whether the loop or function around a wait, with what it calls, also waits for another reason:
// reads a value of the GPU, exchanges one with other processes, empties the cache.
bool has_other_waits(const SourceFacts& facts, const Call& wait);

// The loop in a training step, over samples, layers or times, in whose passes the statement runs;
// null where it runs once a step, where the loop has a few passes, or where what steps is not seen
// well enough. A comprehension around the expression is a loop, too: then the statement itself.
const Statement* loop_in_step(const SourceFacts& facts, const Statement& statement,
                              const Expr* expr = nullptr);

}  // namespace rooftile::source
