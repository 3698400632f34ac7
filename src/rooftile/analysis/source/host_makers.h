// Tensors that a script makes on the host out of nothing but sizes and constants.
#pragma once

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the callee is torch.FloatTensor and the like, also `Tensor` that was set to one, to
// torch.cuda.FloatTensor if there is a GPU.
bool is_legacy_class(const Expr& callee);
bool is_gpu_class(const Expr& callee);
// FloatTensor(n, m), also FloatTensor(size=(n, m)).
bool has_only_sizes(const Call& call);
// Whether the call itself makes one.
bool is_maker(const Call& call);
// The call at the root of a value that is made on the host from nothing; null for other values.
const Call* host_maker(const Expr* expr);

}  // namespace rooftile::source
