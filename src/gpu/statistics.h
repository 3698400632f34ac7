// Statistics that a few slow runs do not move.
#pragma once

#include <functional>
#include <span>

#include "rooftile/base/result.h"
#include "rooftile/base/units.h"

namespace rooftile::gpu {

struct Summary {
  Seconds median;
  Seconds mad;  // median absolute deviation from the median
  Seconds p10, p90;
  std::size_t repeats = 0;
  // Half the 90 % confidence interval of the median, as a share of it.
  double uncertainty = 0;
};

// Of at least one time.
Summary summarize(std::span<const Seconds> times);

// When a point is measured well enough.
struct StopRule {
  std::size_t least = 7, most = 60;  // repeats
  double uncertainty = 0.005;        // stop once the median is known this well …
  Seconds limit{1.5};                // … or the point took this long
};

// Time since some start; a parameter so that tests need not wait.
using Clock = std::function<Seconds()>;
Clock steady_clock();

// Repeats `run` until the rule is met; the first error ends it.
Result<Summary> repeat(const std::function<Result<Seconds>()>& run, const StopRule& rule,
                       const Clock& clock);

}  // namespace rooftile::gpu
