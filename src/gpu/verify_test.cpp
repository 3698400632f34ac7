#include "gpu/verify.h"

#include <gtest/gtest.h>

#include "gpu/fake_gpu.h"
#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

// Odd widths take twice as long.
Seconds by_width(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return Seconds(gemm && gemm->n % 2 != 0 ? 2e-4 : 1e-4);
}

TEST(Verify, MeasuresBeforeAndAfterEachFinding) {
  const auto workload = parse_workload(
      "gemm a bf16 m=4096 n=4097 k=4096 count=3\n"
      "gemm b bf16 m=4096 n=4097 k=4096\n"
      "other c bf16 fn=unknown\n");
  FakeGpu gpu(by_width);
  const std::vector<Finding> findings = check(*workload, gpu.device()).findings;
  ASSERT_FALSE(findings.empty());
  Verifier verifier(gpu, {}, [&] { return gpu.now; });
  const Verification result = verifier.verify(*workload, findings, TimeModel(gpu.device()));
  ASSERT_EQ(result.ops.size(), 3U);
  EXPECT_EQ(result.ops[0].measured, Seconds(2e-4));
  EXPECT_FALSE(result.ops[2].measured);
  EXPECT_EQ(result.ops[2].failure, "this kind is not measured");
  ASSERT_EQ(result.findings.size(), 1U);
  const CheckedFinding& finding = result.findings[0];
  EXPECT_EQ(finding.measured_ops, 2U);
  EXPECT_DOUBLE_EQ(finding.before->value(), 8e-4);  // four runs
  EXPECT_DOUBLE_EQ(finding.measured_saving()->value(), 4e-4);
  EXPECT_GT(finding.predicted.expected, Seconds(0));
  EXPECT_EQ(gpu.prepared, 2U);  // equal operations are measured once
}

TEST(Verify, BeginsNothingAfterTheBudget) {
  const auto workload = parse_workload("gemm a bf16 m=64 n=64 k=64\ngemm b bf16 m=64 n=64 k=128\n");
  FakeGpu gpu(by_width);
  Verifier verifier(
      gpu, {}, [&] { return gpu.now; }, Seconds(0.1));
  const Verification result = verifier.verify(*workload, {}, TimeModel(gpu.device()));
  EXPECT_TRUE(result.ops[0].measured);
  EXPECT_FALSE(result.ops[1].measured);
}

TEST(Verify, CountsFindingsThatChangeNoOperation) {
  const auto workload = parse_workload("gemm a bf16 m=64 n=64 k=64\n");
  FakeGpu gpu(by_width);
  Finding finding;
  finding.ops = {0};
  Verifier verifier(gpu, {}, [&] { return gpu.now; });
  const Verification result = verifier.verify(*workload, {finding}, TimeModel(gpu.device()));
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.unmeasurable_findings, 1U);
}

}  // namespace
}  // namespace rooftile::gpu
