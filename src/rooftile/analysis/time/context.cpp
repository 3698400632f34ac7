#include "rooftile/analysis/time/context.h"

#include <cmath>

namespace rooftile {
namespace {

const Interval& interval_of(const Intervals& intervals, Bound bound) {
  if (bound == Bound::memory) return intervals.memory;
  return bound == Bound::latency ? intervals.latency : intervals.math;
}

}  // namespace

Range<Seconds> interval_around(Seconds expected, const Interval& interval, double widening) {
  if (widening == 1) return {expected * interval.low, expected, expected * interval.high};
  return {expected * std::pow(interval.low, widening), expected,
          expected * std::pow(interval.high, widening)};
}

TimeEstimate make_estimate(Seconds total, Bound bound, const Intervals& intervals,
                           double widening) {
  TimeEstimate estimate;
  estimate.bound = bound;
  estimate.time = interval_around(total, interval_of(intervals, bound), widening);
  return estimate;
}

}  // namespace rooftile
