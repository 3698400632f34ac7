// What a collective's kernel moved, as far as the recording says.
#pragma once

#include <cstdint>

#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

// Of an activity of the GPU: as its kernel says, else as the operators around its launch.
CollectiveShape collective_shape(const Timeline& timeline, const Links& links, std::uint32_t row);

}  // namespace rooftile::trace
