#include "rooftile/findings/trace_diff.h"

#include <algorithm>
#include <cmath>

namespace rooftile {
namespace {

// Below this no one acts on a change, even of steps that hardly vary.
constexpr double kLeastShare = 0.005;

}  // namespace

TraceVerdict verdict_of(const TraceDiff& diff) {
  const double change = diff.span.change().value();
  const double least =
      std::max(diff.spread.value_or(Seconds()).value(), kLeastShare * diff.span.before.value());
  if (std::abs(change) <= least) return TraceVerdict::noise;
  return change < 0 ? TraceVerdict::faster : TraceVerdict::slower;
}

}  // namespace rooftile
