// Whether a program trains nothing but a small head on features that stay as they are.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the optimizers hold a head alone, of one linear layer or by its name, or all else is
// frozen by its name.
bool trains_head_only(const SourceFacts& facts, const Program& program);

// Whether all that the training loops run is linear layers made in place: their inputs are features
// from elsewhere.
bool runs_linear_layers_only(const SourceFacts& facts, const Program& program);

// The modules whose parameters() are in what an optimizer gets.
std::vector<const Expr*> optimized_modules(const Call& optimizer);

// optim.SGD([delta]), optim.Adam([latent] + noises): looks for single tensors, as an adversarial
// example, and trains no network.
bool is_optimizer_of_tensors(const Call& optimizer);
// Whether all training that the program gets to is of such tensors.
bool trains_tensors_only(const Program& program);

}  // namespace rooftile::source
