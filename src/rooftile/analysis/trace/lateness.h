// How late other ranks are, seen by one that waits for them.
#pragma once

#include <optional>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"

namespace rooftile::trace {

// TraceSummary::steady_lateness. `beyond`: by GPU activity, what it takes beyond the usual; empty
// where nothing does.
std::optional<Seconds> steady_lateness(const Timeline& timeline, const Links& links,
                                       const GpuTrack& track,
                                       const std::vector<Nanoseconds>& beyond);

}  // namespace rooftile::trace
