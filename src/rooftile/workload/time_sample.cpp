#include "rooftile/workload/time_sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rooftile {
namespace {

// The runs of several samples in order. A point that stands for n runs lies where the middle one of
// them would.
class RunsInOrder {
 public:
  explicit RunsInOrder(std::span<const CountedSample> samples) {
    std::vector<std::pair<double, double>> weighted;  // seconds, runs
    for (const auto& [sample, runs] : samples) {
      const double points = static_cast<double>(sample->size());
      const double each = std::max(1.0, static_cast<double>(runs) / points);
      for (const Seconds time : *sample) weighted.emplace_back(time.value(), each);
    }
    std::ranges::sort(weighted);
    double before = 0;
    for (const auto& [seconds, runs] : weighted) {
      points_.push_back({before + (runs - 1) / 2, seconds});
      before += runs;
    }
    last_ = std::max(0.0, before - 1);
  }

  std::size_t size() const { return points_.size(); }
  double seconds(std::size_t point) const { return points_[point].seconds; }

  double quantile(double q) const {
    const auto above = std::ranges::lower_bound(points_, q * last_, {}, &Point::place);
    if (above == points_.begin()) return above->seconds;
    if (above == points_.end()) return points_.back().seconds;
    const Point& below = *(above - 1);
    const double part = (q * last_ - below.place) / (above->place - below.place);
    return std::lerp(below.seconds, above->seconds, part);
  }

 private:
  struct Point {
    double place, seconds;
  };
  std::vector<Point> points_;
  double last_ = 0;  // place
};

// `value` of each of `size` things, or `quantile` evenly spaced where those are too many.
template <class Value, class Quantile>
TimeSample thinned(std::size_t size, Value value, Quantile quantile) {
  TimeSample sample;
  for (std::size_t i = 0; i < std::min(size, kMostTimes); ++i) {
    const double q = static_cast<double>(i) / static_cast<double>(kMostTimes - 1);
    sample.emplace_back(size <= kMostTimes ? value(i) : quantile(q));
  }
  return sample;
}

}  // namespace

double quantile(std::span<const double> ascending, double q) {
  const double place = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= ascending.size()) return ascending.back();
  return std::lerp(ascending[below], ascending[below + 1], place - static_cast<double>(below));
}

double take_quantile(std::span<double> values, double q) {
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  return std::lerp(*below, *std::min_element(below + 1, values.end()), place - std::floor(place));
}

TimeSample sample_of(std::span<const double> ascending) {
  return thinned(
      ascending.size(), [&](std::size_t i) { return ascending[i]; },
      [&](double q) { return quantile(ascending, q); });
}

TimeSample merged(std::span<const CountedSample> samples) {
  const RunsInOrder runs(samples);
  return thinned(
      runs.size(), [&](std::size_t i) { return runs.seconds(i); },
      [&](double q) { return runs.quantile(q); });
}

Spread spread_of(std::span<const CountedSample> samples) {
  const RunsInOrder runs(samples);
  if (runs.size() == 0) return {};
  return {Seconds(runs.quantile(0.1)), Seconds(runs.quantile(0.5)), Seconds(runs.quantile(0.9))};
}

Spread spread_of(const TimeSample& sample, std::int64_t runs) {
  const CountedSample counted{&sample, runs};
  return spread_of(std::span(&counted, 1));
}

}  // namespace rooftile
