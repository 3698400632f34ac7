#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

// NVIDIA's example: 1600 x 2304 makes 13 x 9 = 117 tiles of 128x256, two waves of 108 SMs. No other
// number of tokens saves more than the idle 46 % of these, and the finding names the tile by which
// it saves more than the 28 % of 234 tiles of 128x128.
TEST(GemmPartialLastWave, SavesNoMoreThanTheIdleShareOfItsTiles) {
  const Workload workload = *parse_workload("gemm tall fp16 m=1600 n=2304 k=4096\n");
  const Report report = check(workload, *find_device("a100_sxm_80gb"));
  const auto found = std::ranges::find(report.findings, "gemm/partial-last-wave", &Finding::rule);
  ASSERT_NE(found, report.findings.end());
  ASSERT_TRUE(found->saving);
  EXPECT_THAT(found->message, HasSubstr("2 waves"));
  EXPECT_LE(found->saving->high / report.total.expected, 1 - 117.0 / 216);
  EXPECT_LE(found->saving->expected, found->saving->high);
}

}  // namespace
}  // namespace rooftile
