// What the kernel that ran says about the streams of an operation.
#pragma once

#include <optional>

#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// `known`, what the arguments of `use` give, with the walk and the type that the name of its
// longest kernel states; of indexing without recorded indices what its launch gives. Empty where
// neither names the type.
std::optional<Op> with_kernel(std::optional<Op> known, const OpUse& use);

}  // namespace rooftile::trace
