// Loaders and data sets that an own function makes, one of several by its arguments.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The construction that the call returns, where the arguments leave one of those in its function:
// `make_loader(data, train=True)` with `if train: return DataLoader(…)`. Null for others.
const Call* returned_loader(const Call& call);

// `train, _ = make_loaders()`: no caller keeps what the function made.
bool is_dropped_by_callers(const Call& loader);

// Of a name in `examples, data = load(…)`: what the own function sets to what it returns there; of
// the call `load(…)` itself what it returns. Empty for other expressions.
std::vector<const Expr*> returned_values(const Expr& name);

// Of a parameter: what the callers pass. Empty for other expressions.
std::vector<const Expr*> passed_values(const Expr& name);

}  // namespace rooftile::source
