#include "rooftile/analysis/trace/next_launch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

// Which parts of a wait hold the launches of a thread up. Thread 0 launches at 20 us, thread 1 at
// 10 us, to a stream where its kernel starts later.
std::vector<Window> held_up_parts(const std::string& more, std::uint16_t thread,
                                  const Window& wait) {
  const auto timeline = parse_timeline(R"(
call first 20us 1us cudaLaunchKernel corr=2
call second 10us 1us cudaLaunchKernel corr=1
kernel 7 100us 5us a corr=1
kernel 8 25us 5us b corr=2
)" + more);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const Links links = link_events(*timeline);
  const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
  return NextLaunches(*timeline, links, track).held_up(thread, wait);
}

using Parts = std::vector<Window>;

TEST(NextLaunches, WaitsHoldUpTheThreadThatLaunchesNext) {
  const std::string busy = "op first 0us 30us aten::mm\nop second 0us 30us aten::mm\n";
  EXPECT_EQ(held_up_parts(busy, 1, {5'000, 15'000}), (Parts{{5'000, 10'000}}));
  EXPECT_EQ(held_up_parts(busy, 1, {5'000, 30'000}), (Parts{{5'000, 10'000}, {20'000, 30'000}}));
  EXPECT_EQ(held_up_parts(busy, 0, {5'000, 30'000}), (Parts{{10'000, 30'000}}));
  EXPECT_EQ(held_up_parts(busy, 0, {5'000, 8'000}), Parts{});
  EXPECT_EQ(held_up_parts(busy, 0, {12'000, 12'000}), Parts{});
}

// One that does nothing, and begins nothing until the wait ends, may wait for the other.
TEST(NextLaunches, AThreadThatDoesNothingIsHeldUpByTheOther) {
  EXPECT_EQ(held_up_parts("", 0, {2'000, 8'000}), (Parts{{2'000, 8'000}}));
  EXPECT_EQ(held_up_parts("", 0, {2'000, 10'000}), (Parts{{2'000, 10'000}}));
  EXPECT_EQ(held_up_parts("", 0, {2'000, 10'500}), (Parts{{10'000, 10'500}}));
  EXPECT_EQ(held_up_parts("mark second 5us 1us range\n", 0, {2'000, 8'000}), Parts{});
  EXPECT_EQ(held_up_parts("python second 5us 1us train.py(1): f\n", 0, {2'000, 8'000}), Parts{});
  EXPECT_EQ(held_up_parts("mark second 1us 20us range\n", 0, {2'000, 8'000}),
            (Parts{{2'000, 8'000}}));
  EXPECT_EQ(held_up_parts("op second 1us 20us aten::mm\n", 0, {2'000, 8'000}), Parts{});
}

TEST(NextLaunches, OfOneThreadAllWaitsHoldItUp) {
  const auto timeline =
      parse_timeline("call main 20us 1us cudaLaunchKernel corr=1\nkernel 7 30us 5us a corr=1\n");
  ASSERT_TRUE(timeline);
  const Links links = link_events(*timeline);
  const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
  EXPECT_EQ(NextLaunches(*timeline, links, track).held_up(0, {5'000, 40'000}),
            (Parts{{5'000, 40'000}}));
}

}  // namespace
}  // namespace rooftile::trace
