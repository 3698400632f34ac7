#include "rooftile/analysis/time/context.h"

#include <cmath>

namespace rooftile {
namespace {

const Interval& interval_of(const Intervals& intervals, Bound bound) {
  if (bound == Bound::memory) return intervals.memory;
  return bound == Bound::latency ? intervals.latency : intervals.math;
}

}  // namespace

// What widening adds is mostly an error that all shapes have alike. Pairs of neighbouring shapes
// predicted with another generation's constants scatter 1 to 1.3 times as much as with their own
// (bf16 GEMMs of A100, H100 and L40S, fp32 GEMMs and convolutions of P4 to A100), attention of
// FlashAttention-2 and -3 for each other 2 to 3.7 times, where the whole range is 5 to 6 times as
// wide.
void set_time(TimeEstimate& estimate, Seconds expected, const Interval& interval, double widening) {
  if (widening == 1) {
    estimate.time = {expected * interval.low, expected, expected * interval.high};
    return;
  }
  estimate.time = {expected * std::pow(interval.low, widening), expected,
                   expected * std::pow(interval.high, widening)};
  estimate.unshared = 1 / std::sqrt(widening);
}

TimeEstimate make_estimate(Seconds total, Bound bound, const Intervals& intervals,
                           double widening) {
  TimeEstimate estimate;
  estimate.bound = bound;
  set_time(estimate, total, interval_of(intervals, bound), widening);
  return estimate;
}

}  // namespace rooftile
