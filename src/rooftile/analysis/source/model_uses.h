// What a wrapped model is used for, for untrained_models.h.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A variable that only runs with gradients off from the wrapping on.
bool runs_without_gradients(const SourceFacts& facts, const Call& wrap);
// A variable that is made here and only runs, is moved and takes the weights of a file: whatever
// is recorded, no optimizer has its weights.
bool meets_no_optimizer(const SourceFacts& facts, const Call& wrap);
// `self.net` that only runs with gradients off, in its file and in those that import that.
bool is_member_without_gradients(const SourceFacts& facts, const Call& wrap);

}  // namespace rooftile::source
