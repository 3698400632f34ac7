#include "rooftile/analysis/trace/held_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

// Microseconds of a collective from 100 to 500 us in which computation waits. The kernel before it
// ends at 100 us, the one after it is launched at `launched_us`.
double awaited_us(int launched_us, const std::string& more = "") {
  const auto timeline = parse_timeline(
      "op main 0us 700us aten::work\n"
      "call main 0us 2us cudaLaunchKernel corr=1\n"
      "kernel 7 10us 90us gemm corr=1\n"
      "call main 3us 2us cudaLaunchKernel corr=2\n"
      "kernel 20 100us 400us ncclDevKernel_AllReduce corr=2\n"
      "call main " +
      std::to_string(launched_us) +
      "us 2us cudaLaunchKernel corr=3\n"
      "kernel 7 " +
      std::to_string(std::max(launched_us, 490) + 10) + "us 20us gemm corr=3\n" + more);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  const TraceSummary summary = summarize(*timeline);
  EXPECT_NEAR(summary.time.exposed_communication.value(), 400e-6, 1e-12);
  EXPECT_NEAR(summary.collectives.at(0).awaited.value(), summary.time.awaited_communication.value(),
              1e-12);
  return 1e6 * summary.time.awaited_communication.value();
}

TEST(HeldUp, OfACollectiveFromTheNextLaunchOn) {
  EXPECT_NEAR(awaited_us(20), 400, 1e-6);
  // A launch takes 10 us, as that of the first kernel shows.
  EXPECT_NEAR(awaited_us(300), 190, 1e-6);
  EXPECT_NEAR(awaited_us(520), 0, 1e-6);
}

TEST(HeldUp, WhileTheHostWaitsForTheGpu) {
  EXPECT_NEAR(awaited_us(520, "call main 50us 455us cudaStreamSynchronize\n"), 400, 1e-6);
  EXPECT_NEAR(awaited_us(520, "call main 200us 305us cudaStreamSynchronize\n"), 300, 1e-6);
}

// On another stream a kernel waits that was launched before the next one.
TEST(HeldUp, ByTheEarliestOfTheNextLaunches) {
  EXPECT_NEAR(awaited_us(495,
                         "call main 30us 2us cudaLaunchKernel corr=4\n"
                         "kernel 8 510us 20us gemm corr=4\n"),
              400, 1e-6);
}

}  // namespace
}  // namespace rooftile::trace
