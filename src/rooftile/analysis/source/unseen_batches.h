// Batches by what the code calls them, where the loader that they come out of is not seen.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the value is a batch or a part of one, nothing computed: the variable of a loop over what
// is called a loader, what next() gives of such, or what a caller passes that is.
bool is_unseen_batch(const SourceFacts& facts, const Expr* value);

}  // namespace rooftile::source
