// The difference of two estimates of one model.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/time/time_model.h"

namespace rooftile {
namespace {

// Share of an estimate's error that another shape does not have: much, for the library chooses a
// kernel for each; kernels that wait for different things share less. Nine in ten measured savings
// of neighbouring shapes lie in the range then (docs/time_model.md).
constexpr double kUnsharedSameBound = 0.8;
constexpr double kUnsharedOtherBound = 0.9;

// The model's common error, as factors on a time above 0, without the effects of this shape alone.
Range<double> common_error(const TimeEstimate& estimate) {
  const double expected = estimate.time.expected.value();
  const double low = estimate.time.low.value() / (expected * estimate.own_effects.low);
  const double high = estimate.time.high.value() / (expected * estimate.own_effects.high);
  return {std::min(low, 1.0), 1, std::max(high, 1.0)};
}

// Of the error in log that the other estimate does not share.
double half_width(const TimeEstimate& estimate, const TimeEstimate& other) {
  const Range<double> common = common_error(estimate);
  const double unshared = estimate.kernels == other.kernels ? estimate.unshared : 1;
  return unshared * std::log(common.high / common.low) / 2;
}

// Time saved when the time now is multiplied by `ratio`, at an end of the common error.
Seconds saved(const TimeEstimate& before, double ratio, double shrunk, double grown) {
  const Seconds saving = before.time.expected * (1 - ratio);
  return saving * (saving.value() > 0 ? shrunk : grown);
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

// Factors on the time now: by what is not shared, and by effects that only one of the two has,
// which change the share that is saved.
struct Ratios {
  double least = 1, expected = 1, most = 1;
};

Ratios ratios(const TimeEstimate& before, const TimeEstimate& after) {
  const double expected = after.time.expected / before.time.expected;
  const Range<double>&was = before.own_effects, &is = after.own_effects;
  return {expected * is.low / was.high, expected, expected * is.high / was.low};
}

Range<Seconds> saved_by_kernels(const TimeEstimate& before, const TimeEstimate& after) {
  if (is_same(before.time, after.time)) return {};
  const Seconds expected = before.time.expected - after.time.expected;
  if (before.time.expected <= Seconds() || after.time.expected <= Seconds()) {
    return before.time + -after.time;
  }
  const Ratios ratio = ratios(before, after);
  const Range<double> common = common_error(before);
  const double unshared = before.bound == after.bound ? kUnsharedSameBound : kUnsharedOtherBound;
  // Not std::hypot: it alone would bind the program to glibc 2.35.
  const double first = half_width(before, after), second = half_width(after, before);
  const double apart = std::exp(unshared * std::sqrt(first * first + second * second));
  // Ranges that do not touch leave no doubt, whatever the two have in common.
  const auto low_end = [&](double most, Seconds untouched) {
    return std::max(saved(before, most * apart, common.low, common.high), untouched);
  };
  const Seconds low = low_end(ratio.most, before.time.low - after.time.high);
  // A difference that only the learned corrections see is not certain.
  const double modelled = ratio.expected * before.learned / after.learned;
  const Seconds low_modelled =
      low_end(modelled, before.time.low / before.learned - after.time.high / after.learned);
  const Seconds high =
      std::min(saved(before, std::min(ratio.least, modelled) / apart, common.high, common.low),
               before.time.high - after.time.low);
  return {std::min({low, low_modelled, expected}), expected, std::max(high, expected)};
}

}  // namespace

Range<Seconds> estimate_saving(const TimeEstimate& before, const TimeEstimate& after) {
  const Range<Seconds> kernels =
      saved_by_kernels(without_conversions(before), without_conversions(after));
  const Range<Seconds> saving = kernels + saved_conversions(before.conversions, after.conversions);
  // A saving stands beside the time expected now, of which the work that is left takes a part.
  const Seconds floor = std::min(after.floor, after.time.expected);
  const Seconds high = std::min(saving.high, before.time.expected - floor);
  return {saving.low, saving.expected, std::max(high, saving.expected)};
}

}  // namespace rooftile
