// Values that are made on the host from nothing in each part, for host_makers.h.
#pragma once

#include "rooftile/analysis/source/made_by_numpy.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// A number, None or a dtype.
bool is_number(const Expr& expr);
// Whether all that the function returns is, as the call in `steps` gets it.
bool returns_made(const FunctionDef& function, Steps steps);

}  // namespace rooftile::source
