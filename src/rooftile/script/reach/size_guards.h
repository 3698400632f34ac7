// Conditions on how many items there are, and on the shape of tensors.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// `x.cuda() if x.numel() else None`, `if x.dim() > 0`, `if num_boxes == 0: … else:`, `if mask.sum()
// > 0`: about the odd empty tensor.
bool is_about_emptiness(const Guard& guard);
// `if len(ids) == 0:`, `if x.numel() == 0:`, and the else of `> 0`: the odd empty tensor itself.
bool is_for_nothing(const Guard& guard);
// `if x.size(1) == 1:`, `if x.dim() == 3 or x.dim() == 4:` hold for all batches or for none.
bool is_about_shape(const Guard& guard);

}  // namespace rooftile::source
