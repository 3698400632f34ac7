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
  EXPECT_THAT(fix_for(12), HasSubstr("24 take only"));
  EXPECT_THAT(fix_for(13), HasSubstr("32 take only"));
  EXPECT_THAT(fix_for(16), HasSubstr("32 take only"));
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
