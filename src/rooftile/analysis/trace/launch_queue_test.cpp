#include "rooftile/analysis/trace/launch_queue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TraceSummary queued(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double in_us(Seconds time) { return to_microseconds(time); }

// Calls return at 5, 8 and 12 us, kernels of 4, 5 and 10 us begin at 10, 20 and 30 us.
TEST(LaunchQueue, DelaysDepthsAndShortKernels) {
  const TraceSummary summary = queued(R"(
call main 0us 5us cudaLaunchKernel corr=1
call main 6us 2us cudaLaunchKernel corr=2
call main 9us 3us cudaLaunchKernel corr=3
kernel 7 10us 4us a corr=1
kernel 7 20us 5us b corr=2
kernel 7 30us 10us c corr=3
)");
  ASSERT_TRUE(summary.queue);
  const LaunchQueue& queue = *summary.queue;
  EXPECT_EQ(queue.launches, 3);
  EXPECT_NEAR(in_us(queue.delay.p10), 5 + 0.2 * 7, 1e-6);
  EXPECT_NEAR(in_us(queue.delay.median), 12, 1e-6);
  EXPECT_NEAR(in_us(queue.delay.p90), 12 + 0.8 * 6, 1e-6);
  EXPECT_NEAR(queue.depth_p10, 1.2, 1e-9);
  EXPECT_NEAR(queue.depth_median, 2, 1e-9);
  EXPECT_NEAR(queue.depth_p90, 2, 1e-9);
  EXPECT_EQ(queue.kernels, 3);
  EXPECT_EQ(queue.below_5us, 1);
  EXPECT_EQ(queue.below_10us, 2);
  EXPECT_NEAR(in_us(queue.time_below_5us), 4, 1e-6);
  EXPECT_NEAR(in_us(queue.time_below_10us), 9, 1e-6);
  ASSERT_EQ(queue.bins.size(), 3U);
  EXPECT_EQ(queue.bins[0].launches, 3);
  EXPECT_NEAR(in_us(queue.bins[0].delay.value_or(Seconds())), 12, 1e-6);
  EXPECT_NEAR(queue.bins[0].depth.value_or(0), (1 + 2 + 2) / 3.0, 1e-9);
  EXPECT_FALSE(queue.bins[1].delay);
  EXPECT_FALSE(queue.bins[1].depth);
  EXPECT_EQ(queue.bins[0].kernels, 1);
  EXPECT_EQ(queue.bins[0].below_5us, 1);
  EXPECT_EQ(queue.bins[0].below_10us, 1);
  EXPECT_EQ(queue.bins[1].kernels, 1);
  EXPECT_EQ(queue.bins[1].below_5us, 0);
  EXPECT_EQ(queue.bins[1].below_10us, 1);
  EXPECT_EQ(queue.bins[2].kernels, 1);
  EXPECT_EQ(queue.bins[2].below_10us, 0);
}

// Kernels that had begun as their call returned waited for nothing; of a graph the first counts.
TEST(LaunchQueue, CountsEachCallOnce) {
  const TraceSummary summary = queued(R"(
call main 0us 15us cudaGraphLaunch corr=1
kernel 7 10us 4us a corr=1
kernel 7 20us 4us b corr=1
kernel 7 30us 4us own
)");
  ASSERT_TRUE(summary.queue);
  EXPECT_EQ(summary.queue->launches, 1);
  EXPECT_NEAR(in_us(summary.queue->delay.median), 0, 1e-6);
  EXPECT_NEAR(summary.queue->depth_median, 1, 1e-9);
  EXPECT_FALSE(queued("kernel 7 10us 4us a\n").queue);
}

// Twenty launches or more, three of them of 100 us; all long kernels and 19 of 20 end within their
// calls.
TEST(LaunchesBlock, WhereEachCallLastsAsLongAsItsKernel) {
  const auto block = [](int count, int long_ones, int long_ns, int free_short, int free_long = 0) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const bool is_long = i < long_ones;
      const bool is_free = is_long ? i < free_long : i < long_ones + free_short;
      const int length = is_long ? long_ns : 5'000;
      text += fmt::format(
          "call main {0}us {1}ns cudaLaunchKernel corr={2}\nkernel 7 {0}us {3}ns a corr={2}\n",
          200 * i, is_free ? length - 1 : length, i + 1, length);
    }
    return queued(text).launches_block;
  };
  EXPECT_TRUE(block(20, 3, 100'000, 0));
  EXPECT_TRUE(block(20, 3, 100'000, 1));
  EXPECT_FALSE(block(20, 3, 100'000, 2));
  EXPECT_FALSE(block(19, 3, 100'000, 0));
  EXPECT_FALSE(block(20, 2, 100'000, 0));
  EXPECT_FALSE(block(20, 3, 99'999, 0));
  EXPECT_FALSE(block(40, 3, 100'000, 0, 1));
}

// Twenty calls of either: the shorter of the medians.
TEST(LightestOperator, IsAViewOrAsStrided) {
  const auto lightest = [](int views, int strided) {
    std::string text;
    int at = 0;
    for (int i = 0; i < views; ++i) {
      text += fmt::format("op main {}us {}us aten::view\n", at += 20, i % 2 == 0 ? 2 : 4);
    }
    for (int i = 0; i < strided; ++i) {
      text += fmt::format("op main {}us 5us aten::as_strided\n", at += 20);
    }
    text += "op main 9ms 1us aten::add\nmark main 10ms 1us aten::view\n";
    return in_us(queued(text).lightest_operator);
  };
  EXPECT_NEAR(lightest(20, 20), 3, 1e-6);
  EXPECT_EQ(lightest(19, 20), 0);
  EXPECT_EQ(lightest(20, 19), 0);
}

}  // namespace
}  // namespace rooftile::trace
