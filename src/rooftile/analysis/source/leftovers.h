// Classes that stand in the files and that no training run makes.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A module class that no training run makes or names, where others take what stands beside it.
bool is_left_over(const SourceFacts& facts, const ClassDef& def);

}  // namespace rooftile::source
