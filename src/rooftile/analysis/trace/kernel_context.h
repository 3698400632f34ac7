// What a kernel is by its name and, where that leaves it open, by what launched it.
#pragma once

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"

namespace rooftile::trace {

// Of a GPU activity that is a kernel. Operators outside PyTorch tell what a kernel of unknown name
// does, an embedding's gathers are the embedding's, and what an optimizer does to lists of tensors
// is the optimizer's.
KernelClass class_in_context(const Timeline& timeline, const Links& links, const KernelNames& names,
                             std::uint32_t row);

// One kernel for a list of tensors: torch._foreach_*, which a compiler of the model does not see.
bool works_on_list(const Timeline& timeline, std::uint32_t row);

}  // namespace rooftile::trace
