#include "rooftile/analysis/trace/lost_work.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TEST(LostWork, IsThatOfTheLastLaunches) {
  const auto timeline = parse_timeline(R"(
call main 0us 5us cudaLaunchKernel corr=1
call main 10us 5us cudaLaunchKernel corr=2
call main 20us 5us cudaLaunchKernel corr=3
kernel 7 30us 5us a corr=1
kernel 7 40us 5us a corr=3
call main 50us 5us cudaLaunchKernel corr=4
call main 60us 5us cudaLaunchKernel
call main 70us 5us cudaMemcpyAsync corr=5
call main 80us 5us cudaLaunchKernel corr=6
)");
  ASSERT_TRUE(timeline);
  const LostWork lost = lost_work(*timeline, link_events(*timeline));
  EXPECT_EQ(lost.all, 6);
  EXPECT_EQ(lost.launches, 2);
  EXPECT_EQ(lost.from, 50'000);
  EXPECT_FALSE(ends_early(lost));
}

// More than ten, and more than one of twenty.
TEST(LostWork, IsMuchWhereARecordingEndsEarly) {
  const auto early = [](std::int64_t launches, std::int64_t all) {
    LostWork lost;
    lost.launches = launches;
    lost.all = all;
    return ends_early(lost);
  };
  EXPECT_TRUE(early(11, 219));
  EXPECT_FALSE(early(11, 220));
  EXPECT_FALSE(early(10, 12));
}

}  // namespace
}  // namespace rooftile::trace
