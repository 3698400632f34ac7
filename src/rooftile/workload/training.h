// From the forward pass to a whole training step, or to a pass with what was learned.
#pragma once

#include "rooftile/workload/workload.h"

namespace rooftile {

// Adds, after the forward operations, their dgrad and wgrad in reverse order and one optimizer
// step. A gradient of the network's input is not computed, so operations before the first trained
// weight get no dgrad. Returns the workload unchanged when it already has a backward pass.
// BatchNorm takes its statistics from the batch.
Workload derive_training(Workload forward, OptimizerKind optimizer = OptimizerKind::adamw);

// BatchNorm applies stored statistics: one pass over its input.
Workload derive_inference(Workload forward);

}  // namespace rooftile
