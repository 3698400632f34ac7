#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

Workload layer(std::int64_t m, std::int64_t n, std::int64_t k) {
  Op op;
  op.name = "fc";
  op.body = Gemm{.m = m, .n = n, .k = k};
  op.dtypes = Dtypes(Dtype::fp16);
  Workload workload;
  workload.ops = {op};
  return workload;
}

constexpr std::int64_t aligned(std::int64_t width) { return (width + 7) / 8 * 8; }

struct Shape {
  std::int64_t n, k;
};

class UnalignedLayers : public testing::TestWithParam<const char*> {};

// Between rows that wait for memory and products that are math-bound there is no gap in which a
// clear loss goes unreported, on any generation.
TEST_P(UnalignedLayers, AreReportedWhereverTheModelExpectsATenth) {
  const std::vector<const Rule*> rules = {find_rule("gemm/unaligned-row-stride"),
                                          find_rule("gemm/memory-bound"),
                                          find_rule("gemm/single-row")};
  const TimeModel model(find_device(GetParam()).value());
  for (const auto& [n, k] : {Shape{4095, 4096}, Shape{4096, 4095}, Shape{1023, 8192}}) {
    for (std::int64_t m = 1; m <= 512; m += m < 128 ? 1 : 8) {
      const Workload given = layer(m, n, k);
      const Analysis now = analyse(given, model);
      const Analysis then = analyse(layer(m, aligned(n), aligned(k)), model);
      if (then.total.expected > 0.9 * now.total.expected) continue;
      EXPECT_FALSE(run_rules({given, now, model, Graph(given)}, rules).empty())
          << "m=" << m << " n=" << n << " k=" << k << ": " << now.total.expected.value() << " s, "
          << then.total.expected.value() << " s aligned";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Generations, UnalignedLayers,
                         testing::Values("v100_sxm2", "t4", "a100_sxm_80gb", "a10", "l4",
                                         "rtx_4090", "h100_sxm", "b200", "rtx_5090"));

TEST(AlignedLayers, OfFewTokensAreMemoryBoundAndNotUnaligned) {
  const Report report = check(layer(16, 4096, 4096), find_device("a100_sxm_80gb").value());
  const auto has = [&](std::string_view rule) {
    return std::ranges::any_of(report.findings,
                               [&](const Finding& finding) { return finding.rule == rule; });
  };
  EXPECT_TRUE(has("gemm/memory-bound"));
  EXPECT_FALSE(has("gemm/unaligned-row-stride"));
}

}  // namespace
}  // namespace rooftile
