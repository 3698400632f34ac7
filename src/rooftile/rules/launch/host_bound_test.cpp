#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/rule.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

std::vector<Finding> findings_in(const TraceSummary& trace, std::string_view rule) {
  const Workload workload = measured_workload({trace});
  const TimeModel model(*find_device("h100_sxm"));
  const Analysis analysis = analyse(workload, model);
  const Rule* const rules[] = {find_rule(rule)};
  return run_rules({workload, analysis, model, Graph(workload)}, rules);
}

TraceSummary summary_of(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

// Each step waits 5 ms for a batch, 3 of them beside the last kernel, which excuses 3 of the 5.4 ms
// that 60 launches of 100 us with kernels of 10 leave the GPU idle.
constexpr const char* kHostBound = R"(
repeat 3 every 14ms
mark main 0us 14ms ProfilerStep#{i}
mark main 0us 5ms enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
op main 11ms 95us aten::mm id=9
call main 11050us 5us cudaLaunchKernel corr=9 id=9
kernel 7 11060us 5900us ampere_sgemm_128x64_tn corr=9
end
repeat 60 every 100us
op main 5ms 95us aten::mm id=1
call main 5050us 5us cudaLaunchKernel corr=1 id=1
kernel 7 5060us 10us ampere_sgemm_32x32_tn corr=1
end
repeat 60 every 100us
op main 19ms 95us aten::mm id=2
call main 19050us 5us cudaLaunchKernel corr=2 id=2
kernel 7 19060us 10us ampere_sgemm_32x32_tn corr=2
end
repeat 60 every 100us
op main 33ms 95us aten::mm id=3
call main 33050us 5us cudaLaunchKernel corr=3 id=3
kernel 7 33060us 10us ampere_sgemm_32x32_tn corr=3
end
)";

TEST(HostBound, SavesNoMoreThanTheIdleTimeOfLaunching) {
  const TraceSummary trace = summary_of(kHostBound);
  const auto findings = findings_in(trace, "launch/host-bound");
  ASSERT_EQ(findings.size(), 1U);
  ASSERT_TRUE(findings.front().saving);
  const Seconds launching = trace.time.idle_by_cause.at(IdleCause::launch) / 3;
  EXPECT_LE(findings.front().saving->expected, launching);
  EXPECT_LE(findings.front().saving->high, trace.time.idle / 3);
  EXPECT_GT(findings.front().saving->expected, 0.8 * launching);
}

// The optimizer launches 60 kernels of 10 us in 6 ms: a rule of its own tells of it.
TEST(HostBound, LeavesTheOptimizersKernelsToItsOwnRule) {
  const TraceSummary trace = summary_of(R"(
mark main 0us 6100us Optimizer.step#Adam.step
op main 0us 5us aten::mm
repeat 60 every 100us
op main 0us 95us aten::add_ id=1
call main 50us 5us cudaLaunchKernel corr=1 id=1
kernel 7 60us 10us vectorized_elementwise_kernel corr=1
end
)");
  for (const auto& [rule, count] :
       {std::pair("launch/host-bound", 0U), std::pair("optimizer/single-tensor", 1U)}) {
    EXPECT_EQ(findings_in(trace, rule).size(), count) << rule;
  }
}

// Views launch nothing: what they take tells how fast the host is.
TEST(HostBound, SaysWhereTheHostIsSlow) {
  const auto message_with = [](const std::string& view) {
    const auto findings = findings_in(summary_of(R"(
repeat 30 every 200us
op main 0us )" + view + R"( aten::view
op main 50us )" + view + R"( aten::as_strided
op main 100us 95us aten::mm id=1
call main 150us 5us cudaLaunchKernel corr=1 id=1
kernel 7 160us 10us ampere_sgemm_32x32_tn corr=1
end
)"),
                                      "launch/host-bound");
    EXPECT_EQ(findings.size(), 1U);
    return findings.empty() ? std::string() : findings.front().message;
  };
  EXPECT_THAT(message_with("20us"), testing::HasSubstr("computes nothing takes it 20.0 µs"));
  EXPECT_THAT(message_with("5us"), testing::Not(testing::HasSubstr("the host is slow")));
}

// Six of eight milliseconds are in the step of an optimizer of the program's own.
TEST(HostBound, NamesTheOptimizerThatLaunchesMost) {
  const auto findings = findings_in(summary_of(R"(
mark main 2ms 6ms Optimizer.step#Own.step
repeat 20 every 100us
op main 0us 95us aten::mm id=1
call main 50us 5us cudaLaunchKernel corr=1 id=1
kernel 7 60us 10us ampere_sgemm_32x32_tn corr=1
end
repeat 20 every 300us
op main 2ms 95us aten::mul id=2
call main 2.05ms 5us cudaLaunchKernel corr=2 id=2
kernel 7 2.06ms 10us void at::native::vectorized_elementwise_kernel<4, f>(int) corr=2
end
)"),
                                    "launch/host-bound");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message, testing::HasSubstr("of it in Optimizer.step#Own.step"));
  EXPECT_THAT(findings[0].fix.text, testing::HasSubstr("optimizer's step"));
}

// The GPU has work for 8 ms in its queue as the recording begins, and waits for the host later.
TEST(HostBound, OfAHostThatTheRecordingSlowsIsInformation) {
  std::string text = "repeat 4 every 10ms\nmark main 0us 10ms ProfilerStep#{i}\nend\n";
  int free = 8'000;
  for (int at = 0; at < 40'000; at += 100) {
    free = std::max(free, at + 60);
    text += fmt::format(
        "op main {0}us 95us aten::mm id={1}\ncall main {2}us 5us cudaLaunchKernel corr={1} id={1}\n"
        "kernel 7 {3}us 10us ampere_sgemm_32x32_tn corr={1}\n",
        at, at / 100 + 1, at + 50, free);
    free += 10;
  }
  const std::string before = "kernel 7 0us 8ms ampere_sgemm_128x64_tn corr=99999\n";
  const auto slowed = findings_in(summary_of(before + text), "launch/host-bound");
  ASSERT_EQ(slowed.size(), 1U);
  EXPECT_EQ(slowed[0].level, Level::info);
  const auto other = findings_in(summary_of(text), "launch/host-bound");
  ASSERT_EQ(other.size(), 1U);
  EXPECT_GT(other[0].level, Level::info);
}

}  // namespace
}  // namespace rooftile
