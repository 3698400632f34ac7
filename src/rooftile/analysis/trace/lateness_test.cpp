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

}  // namespace
}  // namespace rooftile
