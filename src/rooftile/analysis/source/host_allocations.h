// Tensors that a script makes on the host out of nothing but sizes and constants.
#pragma once

#include <string_view>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the callee is torch.FloatTensor and the like, also `Tensor` that was set to one, to
// torch.cuda.FloatTensor if there is a GPU.
bool is_legacy_class(const Expr& callee);
bool is_gpu_class(const Expr& callee);
// FloatTensor(n, m), also FloatTensor(size=(n, m)).
bool has_only_sizes(const Call& call);
// Whether the call itself makes one.
bool makes_on_host(const SourceFacts& facts, const Call& call);
// The call at the root of a value that is made on the host from nothing, in its own function or in
// one that it calls; null for other values.
const Call* host_allocation(const SourceFacts& facts, const Expr& value);
// `mask[i] = label` between the place where it is made and its use.
bool is_filled_between(std::string_view variable, const Statement& made, const Statement& used);

}  // namespace rooftile::source
