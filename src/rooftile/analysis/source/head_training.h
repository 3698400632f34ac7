// Whether a program trains nothing but a small head on features that stay as they are.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// `sized` makes the large layer or library model that the question is about. True where all
// optimizers hold one linear layer on features computed without gradients, or where the library
// model's parameters are frozen and a head is put in place of its own.
bool trains_head_only(const SourceFacts& facts, const Program& program, const Call& sized);

}  // namespace rooftile::source
