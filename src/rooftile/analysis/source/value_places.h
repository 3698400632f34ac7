// Where a value lives, as far as types and what callers pass tell.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Everything but tensors that may be on a GPU and values that are not known.
bool is_surely_host(const Type& type);
// Whether all that the value may be is written out as numbers, truths and texts: a switch that
// callers set, a count.
bool is_written_out(const SourceFacts& facts, const Expr& value);
// What a call of NumPy, or a copy to the host, is part of: it has the same methods as a tensor.
bool comes_from_numpy(const Expr* expr);
// A tensor of which nothing says where it is.
bool is_unplaced_tensor(const Expr& expr);
// On a GPU, or copied from there, also by way of names: `rows = labels.cpu(); rows.data`.
bool was_on_gpu(const SourceFacts& facts, const Expr& value);
// Of what has no type: a part of a tensor of the GPU, out of lists and pairs, and what is computed
// of it: `for t, name in zip(times, names): int(t * 10)`.
bool is_taken_from_gpu(const SourceFacts& facts, const Expr& value);
// A tensor that is on a GPU, or is computed from one that is or that a caller passes from there.
bool may_wait(const SourceFacts& facts, const Expr* expr);

}  // namespace rooftile::source
