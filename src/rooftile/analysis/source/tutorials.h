// Programs that are for learning, whose data and models are small.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the program trains on MNIST, and not only where an option asks for it.
bool is_tutorial(const SourceFacts& facts, const Program& program);
// Whether all programs that train with the file do.
bool is_lesson(const SourceFacts& facts, const File& file);

}  // namespace rooftile::source
