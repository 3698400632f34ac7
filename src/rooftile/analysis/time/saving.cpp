// The difference of two estimates of one model.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/time/time_model.h"

namespace rooftile {
namespace {

// Share of an estimate's error that another shape does not have. Neighbouring shapes differ
// through the library's choice of kernel alone; kernels that wait for different things share
// little. With these a change within one bound has to save about 5 % before it is certain.
constexpr double kUnsharedSameBound = 0.25;
constexpr double kUnsharedOtherBound = 0.6;

double half_width(const TimeEstimate& estimate) {
  return (estimate.time.high - estimate.time.low).value() / 2;
}

// The model's common error, as factors on the time, without the effects of this shape alone.
Range<double> common_error(const TimeEstimate& estimate) {
  const double expected = estimate.time.expected.value();
  if (expected <= 0) return {1, 1, 1};
  const double low = estimate.time.low.value() / (expected * estimate.own_effects.low);
  const double high = estimate.time.high.value() / (expected * estimate.own_effects.high);
  return {std::min(low, 1.0), 1, std::max(high, 1.0)};
}

}  // namespace

Range<Seconds> estimate_saving(const TimeEstimate& before, const TimeEstimate& after) {
  const Seconds expected = before.time.expected - after.time.expected;
  const Seconds least =
      before.time.expected * before.own_effects.low - after.time.expected * after.own_effects.high;
  const Seconds most =
      before.time.expected * before.own_effects.high - after.time.expected * after.own_effects.low;
  const Range<double> common = common_error(before);
  const double unshared = before.bound == after.bound ? kUnsharedSameBound : kUnsharedOtherBound;
  const double same_shape = before.time == after.time ? 0 : 1;
  const Seconds margin(same_shape * unshared * std::hypot(half_width(before), half_width(after)));
  const auto scaled = [](Seconds saving, double shrunk, double grown) {
    return saving * (saving.value() > 0 ? shrunk : grown);
  };
  // No more than the time expected now: a saving stands beside that time.
  const Seconds high = std::min(scaled(most, common.high, common.low) + margin, before.time.expected);
  return {std::min(scaled(least, common.low, common.high) - margin, expected), expected,
          std::max(high, expected)};
}

}  // namespace rooftile
