// A recording's nanoseconds in the units of the analysis, and the middle of several.
#pragma once

#include <algorithm>
#include <vector>

#include "rooftile/base/units.h"
#include "rooftile/workload/timeline.h"

namespace rooftile::trace {

constexpr Seconds to_seconds(Nanoseconds time) { return Seconds(static_cast<double>(time) * 1e-9); }

// Of at least one; of an even number the upper of the two in the middle.
inline Nanoseconds median(std::vector<Nanoseconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace rooftile::trace
