#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/rooftile.h"
#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

Workload parse(const std::string& text) { return parse_workload(text, "test").value(); }

Finding finding_on(const char* gpu, const Workload& workload) {
  for (const Finding& finding : check(workload, find_device(gpu).value()).findings) {
    if (finding.rule == "gemm/memory-bound") return finding;
  }
  return {};
}

// Batches come in multiples of 8.
TEST(MemoryBoundLayers, MoreTokensAreAMultipleOf8) {
  const auto fix_for = [](int tokens) {
    return finding_on("a100_sxm_80gb",
                      parse("gemm fc fp16 m=" + std::to_string(tokens) + " n=4096 k=4096"))
        .fix.text;
  };
  EXPECT_THAT(fix_for(12), HasSubstr("24 take "));
  EXPECT_THAT(fix_for(13), HasSubstr("32 take "));
  EXPECT_THAT(fix_for(16), HasSubstr("32 take "));
}

// m·n·k / (m·k + n·k + m·n) multiply-adds per element of 2 bytes is the intensity in flop per byte.
// For n = k = 4096 it is 138.9, a V100's ridge (125 TFLOPS by 900 GB/s), at 149.0 tokens, and
// 153.0, an A100's (312 by 2039), at 165.4.
TEST(MemoryBoundLayers, TokensAtTheRidge) {
  const Workload small = parse("gemm fc fp16 m=64 n=4096 k=4096");
  EXPECT_THAT(finding_on("v100_sxm2", small).fix.text, HasSubstr(", 149 reach the ridge"));
  EXPECT_THAT(finding_on("a100_sxm_80gb", small).fix.text, HasSubstr(", 166 reach the ridge"));
  EXPECT_EQ(finding_on("v100_sxm2", parse("gemm fc fp16 m=128 n=4096 k=4096")).rule,
            "gemm/memory-bound");
  EXPECT_EQ(finding_on("v100_sxm2", parse("gemm fc fp16 m=256 n=4096 k=4096")).rule, "");
}

// With twice the tokens a step holds the optimizer once for twice the work, and reads and writes
// the weights and their gradients once. By hand: NVIDIA's V100 moves 900 GB/s; AdamW on 16.8 M
// parameters of 28 bytes takes 0.52 ms, each product moves a weight of 33.6 MB in 37 us. So a step
// takes 0.6 ms at least, and nearly half of it is saved.
TEST(MemoryBoundLayers, GradientsAndOptimizerCountAtEqualWork) {
  const Workload step = derive_training(parse("gemm fc fp16 m=64 n=4096 k=4096"));
  const Device device = find_device("v100_sxm2").value();
  const Seconds total = analyse(step, TimeModel(device)).total.expected;
  const Finding finding = finding_on("v100_sxm2", step);
  ASSERT_TRUE(finding.saving);
  EXPECT_GT(finding.saving->expected, 0.46 * total);
  EXPECT_LT(finding.saving->expected, 0.5 * total);
}

}  // namespace
}  // namespace rooftile
