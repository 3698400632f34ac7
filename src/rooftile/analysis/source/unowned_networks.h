// Networks that run in the training step though nobody trains them.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether all that is done with the network that the call runs is seen, from where it is made on,
// and leaves its weights alone: it runs, moves, is loaded and switched, but no optimizer takes its
// weights, nothing freezes them, and no code that is not given gets hold of it.
bool is_in_no_optimizer(const SourceFacts& facts, const Call& call);

// Whether what the call gives gets to a backward pass with its graph: in its function, or in those
// that get it returned.
bool reaches_backward(const Call& call);

}  // namespace rooftile::source
