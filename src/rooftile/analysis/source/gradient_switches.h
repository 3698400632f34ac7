// Whether a loop that evaluates runs with gradients switched off, in any of the ways to do it.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether this way leads through no_grad or inference_mode, own decorators by their name included.
bool is_without_gradients(const Context& context);

// Whether some way to the loop leads through no_grad, or its function or its program switches
// gradients off by other means: set_grad_enabled, `no_grad()(evaluate)`, an ExitStack, volatile
// inputs, weights that are frozen before it.
bool switches_gradients_off(const SourceFacts& facts, const Loop& loop);

}  // namespace rooftile::source
