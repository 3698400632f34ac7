// Which of the models that a script wraps for several GPUs nobody trains.
#pragma once

#include <unordered_set>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Functions with a training loop of their own.
using Trainers = std::unordered_set<const FunctionDef*>;
Trainers training_functions(const SourceFacts& facts);

// Whether the model that `nn.DataParallel(model)` is given is only evaluated: frozen or without
// weights, a copy by its name, wrapped behind the training or in an evaluation, switched to
// evaluation for good, or run under no_grad alone. `trainers` are those of the facts.
bool is_untrained(const SourceFacts& facts, const Call& wrap, const Trainers& trainers);

}  // namespace rooftile::source
