// Programs that are for learning, whose data and models are small.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the program trains on MNIST, and not only where an option asks for it.
bool is_tutorial(const SourceFacts& facts, const Program& program);

}  // namespace rooftile::source
