// When silence about a trace is no verdict.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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
kernel 7 10us 900us reduce_baseline corr=1 grid={},1,1 block=256,1,1
)",
                                                   blocks));
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return check(measured_workload({summarize(*timeline)}), *find_device("a100_sxm4_80gb"));
}

TEST(NotJudged, AKernelOfOneBlockIsAFinding) {
  EXPECT_EQ(report_of(1).findings.at(0).rule, "launch/idle-sms");
  EXPECT_TRUE(report_of(1024).findings.empty());
}

Report report_of(const std::string& trace) {
  const auto timeline = parse_timeline(trace);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return check(measured_workload({summarize(*timeline)}), *find_device("a100_sxm4_80gb"));
}

bool has_advice(const Report& report) {
  return std::ranges::any_of(report.findings,
                             [](const Finding& finding) { return finding.level > Level::info; });
}

// Launch-bound, but nothing says that other steps are alike.
TEST(NotJudged, OneStepThatTheProgramNamesShowsNoSteadyState) {
  std::string trace = "format Kineto\nmark main 0us 20ms train_step\n";
  for (int i = 1; i <= 90; ++i) {
    trace += fmt::format(
        "op main {0}us 60us aten::mm id={1}\n"
        "call main {0}us 50us cudaLaunchKernel corr={1} id={1}\n"
        "kernel 7 {0}.9us 12us gemm_{2} corr={1}\n",
        200 * i, i, i % 5);
  }
  const Report report = report_of(trace);
  EXPECT_FALSE(has_advice(report));
  EXPECT_THAT(report.not_judged_because, testing::HasSubstr("one step was recorded"));
}

TEST(NotJudged, AProgramInWhichNothingRepeats) {
  std::string trace = "format Nsight Systems\n";
  for (int i = 1; i <= 12; ++i) {
    trace += fmt::format(
        "mark main {0}0ms 9ms build_{0}\n"
        "call main {0}9ms 50us cudaLaunchKernel corr={0}\n"
        "kernel 7 {0}9.1ms 300us gemm_{0} corr={0}\n",
        i);
  }
  const Report report = report_of(trace);
  EXPECT_FALSE(has_advice(report));
  EXPECT_THAT(report.not_judged_because, testing::HasSubstr("nothing repeats"));
}

// On a GPU that is not listed, too: naming another would not help.
TEST(NotJudged, SetUpIsTheReasonOnAnyGpu) {
  const Report report = report_of(R"(
format Kineto
device 0 NVIDIA Unheard 9000 sms=16 cc=8.6
call main 0us 50ms cuModuleLoadData
op main 50ms 60us aten::mm id=1
call main 50ms 50us cudaLaunchKernel corr=1 id=1
kernel 7 50.1ms 300us sgemm corr=1
)");
  EXPECT_THAT(report.not_judged_because, testing::HasSubstr("record after a warm-up"));
}

TEST(NotJudged, GraphsRecordedAsAWholeSayHowToRecordTheirKernels) {
  const Report report = report_of(R"(
format Nsight Systems
repeat 4 every 10ms
call main 0us 50us cudaGraphLaunch corr=1
kernel 7 100us 9ms CUDA graph corr=1
end
)");
  EXPECT_THAT(report.not_judged_because,
              testing::HasSubstr("in CUDA graphs whose kernels were not recorded: record with nsys "
                                 "profile --cuda-graph-trace=node"));
}

TEST(NotJudged, KernelsOfTheProgramsOwnAreNamed) {
  const Report report = report_of(R"(
format Nsight Systems
repeat 4 every 10ms
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 7ms calcResiduals(float*) corr=1 grid=2000,1,1 block=256,1,1
call main 7.1ms 5us cudaLaunchKernel corr=2
kernel 7 7.2ms 2ms cub::DeviceScanKernel(float*) corr=2 grid=2000,1,1 block=256,1,1
call main 7.3ms 2.6ms cudaDeviceSynchronize
end
)");
  EXPECT_THAT(report.not_judged_because,
              testing::HasSubstr("in the program's own kernels, which no rule looks into"));
  EXPECT_THAT(report.not_judged_because, testing::HasSubstr("calcResiduals"));
}

// Each run makes its input on the host and copies it: ten times as long as the kernel.
TEST(NotJudged, ABenchmarkOfOneOperatorGetsNoAdviceOnItsInputs) {
  const Report report = report_of(R"(
format Kineto
repeat 10 every 50ms
op main 0ms 40ms aten::normal_
op main 40ms 4ms aten::copy_ id=1
call main 40.1ms 3.8ms cudaMemcpyAsync corr=1 id=1
copy 7 40.2ms 3.6ms HtoD pageable bytes=40000000 corr=1
op main 44ms 100us aten::square id=2
call main 44.02ms 10us cudaLaunchKernel corr=2 id=2
kernel 7 44.1ms 900us vectorized_elementwise_kernel corr=2
end
)");
  EXPECT_FALSE(has_advice(report));
  EXPECT_THAT(report.not_judged_because,
              testing::HasSubstr("repeats aten::square (10 runs of 900 µs each) and nothing else"));
}

TEST(NotJudged, AToyLeavesTheTimeToTheHost) {
  std::string trace = "format Kineto\nrepeat 5 every 1ms\nmark main 0us 1ms ProfilerStep#{i}\n";
  for (int i = 1; i <= 8; ++i) {
    trace += fmt::format(
        "op main {0}00us 60us aten::mm id={0}\n"
        "call main {0}20us 5us cudaLaunchKernel corr={0} id={0}\n"
        "kernel 7 {0}30us 2us gemm_{0} corr={0}\n",
        i);
  }
  const Report report = report_of(trace + "end\n");
  EXPECT_FALSE(has_advice(report));
  EXPECT_THAT(report.not_judged_because,
              testing::HasSubstr("the GPU's 8 kernels a step take 2.00 µs each"));
}

TEST(NotJudged, FirstCallsGetNoAdvice) {
  const Report report = report_of(R"(
format Kineto
mark main 0ms 900ms _compile.compile_inner (dynamo_timed)
call main 1ms 10us cudaLaunchKernel corr=9
kernel 7 1.02ms 10us fill corr=9
repeat 20 every 1ms
op main 901ms 900us aten::mm id=1
call main 901.5ms 10us cudaLaunchKernel corr=1 id=1
kernel 7 901.55ms 10us ampere_sgemm_128x64_tn corr=1
end
)");
  EXPECT_FALSE(has_advice(report));
  EXPECT_THAT(report.not_judged_because, testing::HasSubstr("record after a warm-up"));
}

// The kernel is of no use to look into: its copies take the time.
TEST(NotJudged, CopiesThatTakeTheTimeAreTheReason) {
  const Report report = report_of(R"(
format Nsight Systems
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 500us add(float*) corr=1 grid=2000,1,1 block=256,1,1
call main 20us 2500us cudaMemcpy corr=2
copy 7 520us 2000us DtoH pageable bytes=6000000 corr=2
)");
  EXPECT_THAT(
      report.not_judged_because,
      testing::HasSubstr("of the time the GPU only copies (6.00 MB to the host at 3.00 GB/s, "
                         "pageable)"));
}

}  // namespace
}  // namespace rooftile
