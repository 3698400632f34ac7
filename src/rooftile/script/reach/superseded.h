// Programs that others have taken the place of.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether another training program stands for each one that has the file: a later version that
// documents start, as v3/train.py for v1/train.py, or one of which it is a copy, as train.py for
// third_party/train.py.
bool is_superseded(const SourceFacts& facts, const File& file);

}  // namespace rooftile::source
