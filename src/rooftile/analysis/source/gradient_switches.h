// What switches gradients off, and whether a loop that evaluates runs with it, in any of the ways.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether some way to the loop leads through no_grad, or its function or its program switches
// gradients off by other means: set_grad_enabled, `no_grad()(evaluate)`, an ExitStack, volatile
// inputs, weights that are frozen before it.
bool switches_gradients_off(const SourceFacts& facts, const Loop& loop);

}  // namespace rooftile::source
