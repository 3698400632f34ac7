// Optimizers that the files write themselves.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The step of a class derived from one of torch.optim.
bool is_optimizer_step(const FunctionDef* function);
// The same, or a method that nothing but the step of its class calls.
bool runs_in_optimizer_step(const FunctionDef* function);
// The same, of a class that a training program makes: scaler.step(optimizer) and the like call it
// where no caller is seen.
bool is_training_optimizer_step(const SourceFacts& facts, const FunctionDef* function);

}  // namespace rooftile::source
