#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/rule.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

// Findings of one rule, as a report has them.
std::vector<Finding> findings_of(std::string_view rule, std::string_view text) {
  const Workload workload = *parse_workload(text);
  const TimeModel model(*find_device("a100_sxm_80gb"));
  const Analysis analysis = analyse(workload, model);
  const Rule* const rules[] = {find_rule(rule)};
  return run_rules({workload, analysis, model, Graph(workload)}, rules);
}

// Nothing is saved where the model is channels_last already; other runtimes than PyTorch choose.
TEST(NchwOnTensorCores, UnknownLayoutsAreACondition) {
  constexpr std::string_view kConv =
      "conv c fp16 n=32 c=128 k=128 in=56x56 kernel=3x3 pad=1 count=16\n";
  const auto known = findings_of("conv/nchw-on-tensor-cores", kConv);
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].level, Level::advice);
  EXPECT_GT(known[0].saving->low.value(), 0.0);
  EXPECT_THAT(known[0].message, Not(HasSubstr("already")));
  const auto unknown =
      findings_of("conv/nchw-on-tensor-cores", "workload graph=pytorch\n" + std::string(kConv));
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(unknown[0].level, Level::advice);
  EXPECT_EQ(unknown[0].saving->low.value(), 0.0);
  EXPECT_THAT(unknown[0].message, HasSubstr("if the model is not channels_last already"));
  EXPECT_THAT(unknown[0].fix.text, HasSubstr("Unless it is channels_last already"));
  const auto chosen =
      findings_of("conv/nchw-on-tensor-cores", "workload graph=runtime\n" + std::string(kConv));
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].level, Level::info);
}

// The bias's gradient reads the output once; an addition of its own would read and write it: 8192 ·
// 4096 elements of 2 bytes at 2,039 GB/s, the data sheet's bandwidth, take 32.9 µs.
TEST(BiasBeforeBatchNorm, SavesOneToThreePassesOverTheOutput) {
  const auto findings = findings_of("conv/bias-before-batchnorm",
                                    "workload mode=training\n"
                                    "gemm fc fp16 m=8192 n=4096 k=1024 bias=1 to=a\n"
                                    "norm bn fp16 fn=batch rows=8192 cols=4096 from=a\n");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].saving->low, Seconds(0));
  EXPECT_NEAR(findings[0].saving->expected.value(), 32.9e-6, 0.1e-6);
  EXPECT_NEAR(findings[0].saving->high.value(), 98.7e-6, 0.3e-6);
}

// The named layer takes no longer, and the next multiple of 64 does.
TEST(Depthwise, NamesTheDenseLayerOfEqualTime) {
  constexpr std::string_view kSeparable =
      "conv dw fp16 n=128 c=256 k=256 groups=256 in=56x56 kernel=3x3 pad=1 layout=nhwc\n"
      "conv pw fp16 n=128 c=256 k=256 in=56x56 kernel=1x1 layout=nhwc\n";
  const auto findings = findings_of("conv/depthwise", kSeparable);
  ASSERT_EQ(findings.size(), 1u);
  // 2·128·56²·(9·256 + 256·256) = 54.5 GFLOP; 2·128·56²·9·128² = 118.4 GFLOP, 2.2 times as many.
  EXPECT_THAT(findings[0].fix.text,
              HasSubstr("a dense 3x3 layer of 128 channels in place of dw and the 1x1 layer behind "
                        "it (256 to 256 channels)"));
  EXPECT_THAT(findings[0].fix.text, HasSubstr("for 2.2 times the flop"));
  EXPECT_EQ(findings[0].level, Level::info);
}

TEST(Depthwise, WithoutALayerOfEqualTimeOnlyBytesHelp) {
  const auto findings =
      findings_of("conv/depthwise",
                  "conv dw fp16 n=1 c=24 k=24 groups=24 in=8x8 kernel=3x3 pad=1 layout=nhwc\n");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].fix.text, HasSubstr("reduce bytes, not flop"));
}

// 40 * 28 * 28 rows of 128 channels: whatever other kernels a batch may get, its waves save no more
// than the share of the time in which SMs have no tile now.
TEST(ConvPartialLastWave, SavesNoMoreThanTheIdleShareOfItsTiles) {
  constexpr std::string_view kText =
      "workload batch=40\n"
      "conv body fp16 n=40 c=128 k=128 in=28x28 kernel=3x3 pad=1 layout=nhwc count=8\n";
  const Workload workload = *parse_workload(kText);
  const TimeModel model(*find_device("a100_sxm_80gb"));
  const TimeEstimate time = *model.estimate(workload.ops.front());
  ASSERT_TRUE(time.grid);
  const double idle = 1 - time.grid->wave_efficiency;
  const auto found = findings_of("conv/partial-last-wave", kText);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_LE(found[0].saving->high / (time.time.expected * 8.0), idle + 1e-9);
}

}  // namespace
}  // namespace rooftile
