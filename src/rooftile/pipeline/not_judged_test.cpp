// When silence about a trace is no verdict.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/rooftile.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

// A C++ program with one kernel of its own, launched with `blocks` blocks.
Report report_of(int blocks) {
  const auto timeline = parse_timeline(fmt::format(R"(
format Nsight Systems
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 900us reduce_baseline corr=1 grid={},1,1 block=1,1,1
)",
                                                   blocks));
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return check(measured_workload({summarize(*timeline)}), *find_device("a100_sxm4_80gb"));
}

TEST(NotJudged, AKernelOfOneBlockLeavesTheOtherSmsIdle) {
  const Report report = report_of(1);
  EXPECT_EQ(verdict_of(report), CheckVerdict::not_judged);
  EXPECT_THAT(report.not_judged_because,
              testing::HasSubstr("is in reduce_baseline, a single block, which runs on one SM"));
}

TEST(NotJudged, AKernelOfManyBlocksIsNone) {
  EXPECT_THAT(report_of(1024).not_judged_because, testing::Not(testing::HasSubstr("one SM")));
}

}  // namespace
}  // namespace rooftile
