#include "rooftile/analysis/op_math.h"

#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Workload parse(const char* text) { return parse_workload(text, "test").value(); }

Op op(const char* text) { return parse(text).ops.front(); }

double ridge_on(const char* gpu, const char* text) {
  return ridge(find_device(gpu).value(), op(text)).value().value();
}

TensorCoreShare share_on(const char* gpu, const char* text) {
  const Device device = find_device(gpu).value();
  const Workload workload = parse(text);
  return tensor_core_share(workload, analyse(workload, TimeModel(device)), device);
}

// NVIDIA, GPU Performance Background User's Guide: 125 TFLOPS by 900 GB/s on a V100 is 138.9 flop
// per byte. Data sheets: A100 19.5 TFLOPS in FP32 and 156 in TF32 by 2039 GB/s; T4 8.1 TFLOPS in
// FP32, which multiplies bf16, by 320 GB/s.
TEST(Ridge, IsOfThePrecisionThatRuns) {
  EXPECT_NEAR(ridge_on("v100_sxm2", "gemm a fp16 m=512 n=1024 k=4096"), 138.9, 0.1);
  EXPECT_NEAR(ridge_on("a100_sxm_80gb", "gemm a fp32 m=512 n=1024 k=4096"), 9.56, 0.01);
  EXPECT_NEAR(ridge_on("a100_sxm_80gb", "conv a fp32 n=8 c=64 k=64 in=56x56 kernel=3x3"), 76.5,
              0.1);
  EXPECT_NEAR(ridge_on("t4", "gemm a bf16 m=512 n=1024 k=4096"), 25.3, 0.1);
  EXPECT_NEAR(ridge_on("v100_sxm2", "elementwise a fp16 fn=relu elements=4096"), 17.4, 0.1);
}

TEST(Ridge, IsEmptyWhereNothingIsComputed) {
  const Device device = find_device("v100_sxm2").value();
  EXPECT_FALSE(ridge(device, op("layout a fp16 elements=4096 perm=0x2x3x1")));
}

TEST(TensorCoreShare, IsOfMatrixOperationsOfAPrecisionTheyTake) {
  EXPECT_EQ(share_on("a100_sxm_80gb", "gemm a bf16 m=4096 n=4096 k=4096").all, 1);
  EXPECT_EQ(share_on("a100_sxm_80gb", "gemm a fp32 m=4096 n=4096 k=4096").all, 0);
  EXPECT_EQ(share_on("t4", "gemm a bf16 m=4096 n=4096 k=4096").all, 0);
  EXPECT_EQ(share_on("a100_sxm_80gb", "gemm a bf16 m=1 n=4096 k=4096").all, 0);
  EXPECT_EQ(share_on("a100_sxm_80gb",
                     "conv a fp16 n=8 c=64 k=64 groups=64 in=56x56 kernel=3x3 layout=nhwc")
                .all,
            0);
}

// Tensor Cores that wait for memory are used, but do not limit: 16 rows read 117 MB of weights.
TEST(TensorCoreShare, SaysWhatItsOperationsWaitFor) {
  const TensorCoreShare decode = share_on("h100_sxm", "gemm a bf16 m=16 n=14336 k=4096\n");
  EXPECT_EQ(decode.all, 1);
  EXPECT_EQ(decode.memory, 1);
  const TensorCoreShare prefill = share_on("h100_sxm", "gemm a bf16 m=8192 n=14336 k=4096\n");
  EXPECT_EQ(prefill.all, 1);
  EXPECT_EQ(prefill.memory + prefill.latency, 0);
}

TEST(TensorCoreShare, IsToldForEachKind) {
  const TensorCoreShare share = share_on("a100_sxm_80gb",
                                         "gemm a bf16 m=4096 n=4096 k=4096\n"
                                         "gemm b fp32 m=4096 n=4096 k=4096\n"
                                         "elementwise c bf16 fn=gelu elements=16777216\n");
  EXPECT_GT(share.all, 0);
  EXPECT_LT(share.all, share.kinds.at("gemm"));
  EXPECT_LT(share.kinds.at("gemm"), 0.5);  // fp32 takes longer than bf16
  EXPECT_EQ(share.kinds.at("elementwise"), 0);
}

}  // namespace
}  // namespace rooftile
