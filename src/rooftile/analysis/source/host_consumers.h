// What the host needs a value of the GPU for.
#pragma once

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Whether the host has to know the value in each step by nature: actions for an environment,
// weights that are saved, the input of an algorithm for the host.
bool feeds_host(const HostRead& read);

// `if isinstance(v, torch.Tensor): v = v.item()` of a meter: what it gets is mostly a number.
bool is_conversion(const SourceFacts& facts, const HostRead& read);

}  // namespace rooftile::source
