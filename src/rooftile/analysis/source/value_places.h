// Where a value lives, as far as types and what callers pass tell.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Everything but tensors that may be on a GPU and values that are not known.
bool is_surely_host(const Type& type);
// What a call of NumPy, or a copy to the host, is part of: it has the same methods as a tensor.
bool comes_from_numpy(const Expr* expr);
// A tensor of which nothing says where it is.
bool is_unplaced_tensor(const Expr& expr);
// On a GPU, or copied from there, also by way of a few names: `rows = labels.cpu(); rows.data`.
bool was_on_gpu(const Expr& value);
// A tensor that is on a GPU, or is computed from one that is or that a caller passes from there.
bool may_wait(const Expr* expr);

}  // namespace rooftile::source
