// Times of many runs in few numbers: exact quantiles of few runs, close ones of many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rooftile/base/units.h"

namespace rooftile {

// The times of runs, ascending: all of them, or of more than kMostTimes that many quantiles, evenly
// spaced from the shortest to the longest.
using TimeSample = std::vector<Seconds>;
inline constexpr std::size_t kMostTimes = 65;

// Where the middle four fifths of the runs lie.
struct Spread {
  Seconds p10, median, p90;

  bool operator==(const Spread&) const = default;
};

// A sample and the number of runs that it stands for.
struct CountedSample {
  const TimeSample* sample;
  std::int64_t runs;
};

// Of ascending values at the place q (n - 1), between its two neighbours in proportion. There must
// be a value.
double quantile(std::span<const double> ascending, double q);
// The same of values in any order, which it rearranges; faster than to sort many.
double take_quantile(std::span<double> values, double q);

TimeSample sample_of(std::span<const double> ascending);

// Of the runs of all samples together; exact where none holds quantiles in place of runs.
TimeSample merged(std::span<const CountedSample> samples);
Spread spread_of(std::span<const CountedSample> samples);
Spread spread_of(const TimeSample& sample, std::int64_t runs);

}  // namespace rooftile
