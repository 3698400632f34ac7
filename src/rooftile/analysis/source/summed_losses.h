// Names that are set to a number and hold a tensor by the time they are read.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// `total = 0.0` that `total += loss` makes a tensor.
bool becomes_tensor(const Expr& name);
// A name that `.backward()` is called on in its function.
bool runs_backward(const Expr& name);

}  // namespace rooftile::source
