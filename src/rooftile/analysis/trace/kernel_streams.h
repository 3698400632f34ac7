// What the kernel that ran says about the streams of an operation.
#pragma once

#include <optional>

#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// The operation that the arguments of `use` tell, if any, with the walk and the type that the name
// of its longest kernel states. Empty where neither names the type.
std::optional<Op> with_kernel(std::optional<Op> told, const OpUse& use);

}  // namespace rooftile::trace
