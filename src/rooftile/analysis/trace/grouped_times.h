// Times of rows, by the group that each belongs to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "rooftile/analysis/trace/nesting.h"
#include "rooftile/workload/time_sample.h"

namespace rooftile::trace {

// A sample for each group, of `time_of(row)` in nanoseconds; `group_of(row)` may be kNone. Rows are
// sorted by group in place of a list for each, which takes 4 bytes a row.
template <class GroupOf, class TimeOf>
std::vector<TimeSample> samples_by_group(std::size_t groups, std::size_t rows, GroupOf group_of,
                                         TimeOf time_of) {
  std::vector<std::uint32_t> next(groups + 1);
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (group_of(row) != kNone) ++next[group_of(row) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> order(next.back());
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (group_of(row) != kNone) order[next[group_of(row)]++] = row;
  }
  std::vector<TimeSample> samples(groups);
  std::vector<double> seconds;
  for (std::size_t group = 0, at = 0; group < groups; ++group) {
    seconds.clear();
    for (; at < next[group]; ++at)
      seconds.push_back(1e-9 * static_cast<double>(time_of(order[at])));
    std::ranges::sort(seconds);
    samples[group] = sample_of(seconds);
  }
  return samples;
}

}  // namespace rooftile::trace
