// From a recording's nanoseconds to the units of the analysis.
#pragma once

#include "rooftile/base/units.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

constexpr Seconds to_seconds(Nanoseconds time) { return Seconds(static_cast<double>(time) * 1e-9); }

}  // namespace rooftile::trace
