// The difference of two estimates of one model.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/time/time_model.h"

namespace rooftile {
namespace {

// Share of an estimate's error that another shape does not have: much, for the library chooses a
// kernel for each; kernels that wait for different things share less. Nine in ten measured savings
// of neighbouring shapes lie in the range then (docs/time_model.md).
constexpr double kUnsharedSameBound = 0.7;
constexpr double kUnsharedOtherBound = 0.9;

// The model's common error, as factors on the time, without the effects of this shape alone.
Range<double> common_error(const TimeEstimate& estimate) {
  const double expected = estimate.time.expected.value();
  if (expected <= 0) return {1, 1, 1};
  const double low = estimate.time.low.value() / (expected * estimate.own_effects.low);
  const double high = estimate.time.high.value() / (expected * estimate.own_effects.high);
  return {std::min(low, 1.0), 1, std::max(high, 1.0)};
}

double half_width(const TimeEstimate& estimate) {
  const Range<double> common = common_error(estimate);
  return estimate.time.expected.value() * (common.high - common.low) / 2;
}

Range<Seconds> operator-(const Range<Seconds>& whole, const Range<Seconds>& part) {
  return {whole.low - part.low, whole.expected - part.expected, whole.high - part.high};
}

// The estimate of the kernels that compute; own effects are factors on their time then.
TimeEstimate without_conversions(TimeEstimate estimate) {
  const Seconds whole = estimate.time.expected;
  estimate.time = estimate.time - estimate.conversions;
  const Seconds rest = estimate.time.expected;
  if (estimate.conversions.expected > Seconds() && rest > Seconds()) {
    Range<double>& own = estimate.own_effects;
    own = {1 + (own.low - 1) * (whole / rest), 1, 1 + (own.high - 1) * (whole / rest)};
  }
  estimate.conversions = {};
  return estimate;
}

// Equal but for the rounding of sums.
bool is_same(const Range<Seconds>& a, const Range<Seconds>& b) {
  const auto close = [](Seconds x, Seconds y) {
    return std::abs((x - y).value()) <= 1e-9 * std::abs(x.value());
  };
  return close(a.low, b.low) && close(a.expected, b.expected) && close(a.high, b.high);
}

// Share of converted layers: one unknown for both.
Range<Seconds> saved_conversions(const Range<Seconds>& before, const Range<Seconds>& after) {
  const Range<Seconds> saved = before - after;
  return {std::min(saved.low, saved.high), saved.expected, std::max(saved.low, saved.high)};
}

Range<Seconds> saved_by_kernels(const TimeEstimate& before, const TimeEstimate& after) {
  if (is_same(before.time, after.time)) return {};
  const Seconds expected = before.time.expected - after.time.expected;
  // Own effects change the share that is saved of the time expected now.
  const Seconds least = before.time.expected -
                        after.time.expected * (after.own_effects.high / before.own_effects.low);
  // A difference that only the learned corrections see is not certain.
  const Seconds modelled =
      before.time.expected / before.learned - after.time.expected / after.learned;
  const Seconds most = before.time.expected -
                       after.time.expected * (after.own_effects.low / before.own_effects.high);
  const Range<double> common = common_error(before);
  const double unshared = before.bound == after.bound ? kUnsharedSameBound : kUnsharedOtherBound;
  const Seconds margin(unshared * std::hypot(half_width(before), half_width(after)));
  const auto scaled = [](Seconds saving, double shrunk, double grown) {
    return saving * (saving.value() > 0 ? shrunk : grown);
  };
  // Ranges that do not touch leave no doubt, whatever the two have in common.
  const auto at_least = [&](Seconds saving, Seconds apart) {
    return std::max(scaled(saving, common.low, common.high) - margin, apart);
  };
  const Seconds low = at_least(least, before.time.low - after.time.high);
  const Seconds low_modelled =
      at_least(modelled, before.time.low / before.learned - after.time.high / after.learned);
  return {std::min({low, low_modelled, expected}), expected,
          std::max(scaled(std::max(most, modelled), common.high, common.low) + margin, expected)};
}

}  // namespace

Range<Seconds> estimate_saving(const TimeEstimate& before, const TimeEstimate& after) {
  const Range<Seconds> kernels =
      saved_by_kernels(without_conversions(before), without_conversions(after));
  const Range<Seconds> saving = kernels + saved_conversions(before.conversions, after.conversions);
  // No more than the time expected now: a saving stands beside that time.
  const Seconds high = std::min(saving.high, before.time.expected);
  return {saving.low, saving.expected, std::max(high, saving.expected)};
}

}  // namespace rooftile
