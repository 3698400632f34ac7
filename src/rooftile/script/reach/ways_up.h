// Searches over all ways to a statement, from it up through its function and its callers; each
// function is met once.
#pragma once

#include <functional>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether some way leads there on which no guard stops.
bool leads_there(const SourceFacts& facts, const Statement& statement,
                 const std::function<bool(const Guard&)>& stops);
bool leads_there(const SourceFacts& facts, const Call& call,
                 const std::function<bool(const Guard&)>& stops);
// The same from the top of a training step on; ways that begin elsewhere are none.
bool leads_from_step(const SourceFacts& facts, const Statement& statement,
                     const std::function<bool(const Guard&)>& stops);
// A guard that keeps passes of the step loop that it stands in out, whatever the options.
bool is_condition_in_step(const Guard& guard);
// The guards on all of them.
std::vector<Guard> guards_on_ways(const SourceFacts& facts, const Statement& statement);

// Whether gradients are off on every way. It needs no roles of loops, so that the reader may ask.
bool runs_without_gradients(const Statement& statement);

// `mp.spawn(worker, nprocs=8)`, `Process(target=worker)`: the calls that start the function.
std::vector<const Call*> starts_of(const SourceFacts& facts, const FunctionDef& function);

}  // namespace rooftile::source
