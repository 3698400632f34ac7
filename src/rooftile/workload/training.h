// From the forward pass to a whole training step.
#pragma once

#include "rooftile/workload/workload.h"

namespace rooftile {

// Adds, after the forward operations, their dgrad and wgrad in reverse order and one optimizer
// step. A gradient of the network's input is not computed, so operations before the first trained
// weight get no dgrad. Returns the workload unchanged when it already has a backward pass.
Workload derive_training(Workload forward, OptimizerKind optimizer = OptimizerKind::adamw);

}  // namespace rooftile
