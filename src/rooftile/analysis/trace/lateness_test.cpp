#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

// Twelve small reductions, launched and ending at so many microseconds each.
std::optional<Seconds> lateness_of(int launch_every_us, int end_every_us, int first_end_us) {
  std::string text;
  int free = 0;
  for (int i = 0; i < 12; ++i) {
    const int launched = launch_every_us * i, end = first_end_us + end_every_us * i;
    const int start = std::max(launched + 10, free);
    text += fmt::format(
        "call main {}us 5us cudaLaunchKernel corr={}\n"
        "kernel 20 {}us {}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) collective=allreduce "
        "dtype=Float in=1000 out=1000 group=0 ranks=8 corr={}\n",
        launched, i + 1, start, end - start, i + 1);
    free = end;
  }
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline).steady_lateness;
}

TEST(SteadyLateness, IsThatOfRanksThatLaunchAtTheSamePace) {
  const auto late = lateness_of(2'000, 2'000, 6'300);
  ASSERT_TRUE(late);
  EXPECT_NEAR(to_microseconds(*late), 6'300, 1);
}

// Each late rank does more in each layer: this one is further and further ahead.
TEST(SteadyLateness, GrowsWhereTheOthersHaveMoreWork) {
  EXPECT_FALSE(lateness_of(500, 2'000, 2'000));
}

// A host that waits for each result launches when the others have come.
TEST(SteadyLateness, IsUnknownWhereTheHostWaitsForEachResult) {
  EXPECT_FALSE(lateness_of(2'000, 2'000, 1'500));
}

// Launched every millisecond and done so many microseconds later, after a run of so many.
std::optional<Seconds> lateness_of_runs(const std::vector<int>& lags_us,
                                        const std::vector<int>& lengths_us) {
  std::string text;
  for (std::size_t i = 0; i < lags_us.size(); ++i) {
    const int launched = 1000 * static_cast<int>(i);
    text += fmt::format(
        "call main {}us 5us cudaLaunchKernel corr={}\n"
        "kernel 20 {}us {}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) collective=allreduce "
        "dtype=Float in=1000 out=1000 group=0 ranks=8 corr={}\n",
        launched, i + 1, launched + lags_us[i] - lengths_us[i], lengths_us[i], i + 1);
  }
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline).steady_lateness;
}

std::vector<int> joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

using Times = std::vector<int>;

// Four kilobytes take 104 us at the most: what waits for half of its time and 100 us counts, in
// eight runs or more.
TEST(SteadyLateness, IsOfRunsThatMostlyWait) {
  const Times lags(12, 1050);
  EXPECT_TRUE(lateness_of_runs(lags, Times(12, 208)));
  EXPECT_FALSE(lateness_of_runs(lags, Times(12, 207)));
  EXPECT_TRUE(lateness_of_runs(lags, joined(Times(2, 50), Times(10, 150))));
  EXPECT_FALSE(lateness_of_runs(lags, joined(Times(2, 50), Times(10, 149))));
  EXPECT_TRUE(lateness_of_runs(Times(10, 1050), joined(Times(2, 50), Times(8, 500))));
  EXPECT_FALSE(lateness_of_runs(Times(9, 1050), joined(Times(2, 50), Times(7, 500))));
}

// Four of five are launched before the one before is done.
TEST(SteadyLateness, IsOfAHostThatRunsAhead) {
  EXPECT_TRUE(lateness_of_runs(joined(Times(8, 1050), {1000, 1000, 1050}), Times(11, 500)));
  EXPECT_FALSE(lateness_of_runs(joined(Times(7, 1050), {1000, 1000, 1000, 1050}), Times(11, 500)));
}

// The middle half lies within a fifth of the median.
TEST(SteadyLateness, VariesLittle) {
  const Times low = joined(Times(3, 1020), Times(6, 1100));
  EXPECT_NEAR(
      lateness_of_runs(joined(low, Times(3, 1320)), Times(12, 500)).value_or(Seconds()).value() *
          1e6,
      1100, 1e-6);
  EXPECT_FALSE(lateness_of_runs(joined(low, Times(3, 1321)), Times(12, 500)));
}

}  // namespace
}  // namespace rooftile
