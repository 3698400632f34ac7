// Loaders that an own function makes, one of several by its arguments.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The construction that the call returns, where the arguments leave one of those in its function:
// `make_loader(data, train=True)` with `if train: return DataLoader(…)`. Null for others.
const Call* returned_loader(const SourceFacts& facts, const Call& call);

}  // namespace rooftile::source
