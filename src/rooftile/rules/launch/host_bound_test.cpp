#include <gtest/gtest.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/rule.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

// 60 launches of 100 us with kernels of 10, then an operator that takes the host 8 ms.
constexpr const char* kHostBound = R"(
repeat 3 every 14ms
mark main 0us 14ms ProfilerStep#{i}
op main 6ms 8ms aten::unflatten_dense_tensors
end
repeat 60 every 100us
op main 0us 95us aten::mm id=1
call main 50us 5us cudaLaunchKernel corr=1 id=1
kernel 7 60us 10us ampere_sgemm_32x32_tn corr=1
end
repeat 60 every 100us
op main 14ms 95us aten::mm id=2
call main 14.05ms 5us cudaLaunchKernel corr=2 id=2
kernel 7 14.06ms 10us ampere_sgemm_32x32_tn corr=2
end
repeat 60 every 100us
op main 28ms 95us aten::mm id=3
call main 28.05ms 5us cudaLaunchKernel corr=3 id=3
kernel 7 28.06ms 10us ampere_sgemm_32x32_tn corr=3
end
)";

TEST(HostBound, SavesNoMoreThanTheIdleTimeOfLaunching) {
  const auto timeline = parse_timeline(kHostBound);
  ASSERT_TRUE(timeline) << to_string(timeline.error());
  const TraceSummary trace = summarize(*timeline);
  const Workload workload = measured_workload({trace});
  const TimeModel model(*find_device("h100_sxm"));
  const Analysis analysis = analyse(workload, model);
  const Rule* const rules[] = {find_rule("launch/host-bound")};
  const auto findings = run_rules({workload, analysis, model, Graph(workload)}, rules);
  ASSERT_EQ(findings.size(), 1U);
  ASSERT_TRUE(findings.front().saving);
  const Seconds launching = trace.time.idle_by_cause.at(IdleCause::launch) / 3;
  EXPECT_LE(findings.front().saving->expected, launching);
  EXPECT_LE(findings.front().saving->high, trace.time.idle / 3);
  EXPECT_GT(findings.front().saving->expected, 0.8 * launching);
}

}  // namespace
}  // namespace rooftile
