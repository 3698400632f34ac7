#include "rooftile/analysis/time/math_unit.h"

#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

Device gpu(const char* name) { return find_device(name).value(); }

// CUDA C++ Programming Guide, "Compute Capabilities": fp16 Tensor Cores from 7.0, int8 from 7.5,
// bf16 and TF32 from 8.0, fp8 from 8.9, fp4 from 10.0.
TEST(MathSupport, FollowsTheArchitecture) {
  EXPECT_EQ(math_support(gpu("v100"), Dtype::fp16), MathSupport::tensor_cores);
  EXPECT_EQ(math_support(gpu("v100"), Dtype::bf16), MathSupport::widened);
  EXPECT_EQ(math_support(gpu("t4"), Dtype::bf16), MathSupport::widened);
  EXPECT_EQ(math_support(gpu("t4"), Dtype::tf32), MathSupport::widened);
  EXPECT_EQ(math_support(gpu("a100"), Dtype::bf16), MathSupport::tensor_cores);
  EXPECT_EQ(math_support(gpu("a100"), Dtype::fp32), MathSupport::cuda_cores);
  EXPECT_EQ(math_support(gpu("a100"), Dtype::fp8), MathSupport::refused);
  EXPECT_EQ(math_support(gpu("l40s"), Dtype::fp8), MathSupport::tensor_cores);
  EXPECT_EQ(math_support(gpu("h100"), Dtype::fp4), MathSupport::refused);
  EXPECT_EQ(math_support(gpu("b200"), Dtype::fp4), MathSupport::tensor_cores);
  EXPECT_EQ(math_support(gpu("t4"), Dtype::int4), MathSupport::tensor_cores);
  for (const char* name : {"v100", "h100", "b200"}) {
    EXPECT_EQ(math_support(gpu(name), Dtype::int4), MathSupport::refused) << name;
  }
}

TEST(MathSupport, NearestPrecision) {
  for (const char* name : {"v100", "t4"}) {
    EXPECT_EQ(best_supported(gpu(name), Dtype::bf16), Dtype::fp16) << name;
    EXPECT_EQ(best_supported(gpu(name), Dtype::tf32), Dtype::fp16) << name;
    EXPECT_EQ(best_supported(gpu(name), Dtype::fp8), Dtype::fp16) << name;
  }
  EXPECT_EQ(best_supported(gpu("a100"), Dtype::fp8), Dtype::bf16);
  EXPECT_EQ(best_supported(gpu("h100"), Dtype::fp4), Dtype::fp8);
  EXPECT_EQ(best_supported(gpu("h100"), Dtype::int4), Dtype::int8);
  // GP100 doubles its rate in fp16; GP104 has fp32 alone.
  EXPECT_EQ(best_supported(gpu("p100_pcie"), Dtype::bf16), Dtype::fp16);
  EXPECT_EQ(best_supported(gpu("p4"), Dtype::bf16), Dtype::fp32);
}

TEST(MathSupport, WhatTheGpuHasStays) {
  for (const char* name : {"p4", "v100", "t4", "a100", "h100", "b200"}) {
    EXPECT_EQ(best_supported(gpu(name), Dtype::fp32), Dtype::fp32) << name;
  }
  EXPECT_EQ(best_supported(gpu("b200"), Dtype::fp4), Dtype::fp4);
  EXPECT_EQ(best_supported(gpu("v100"), Dtype::int64), std::nullopt);
}

// NVIDIA states 62 TOPS of int8 for V100: dp4a on CUDA cores, four times 15.7 TFLOPS.
TEST(MathSupport, BytesOnVolta) {
  const MathUnit unit = math_unit(gpu("v100"), Dtype::int8);
  EXPECT_FALSE(unit.tensor_cores);
  EXPECT_EQ(unit.dtype, Dtype::int8);
  EXPECT_NEAR(unit.peak.value(), 62.8e12, 0.1e12);
}

// Four times fp32 from compute capability 6.1 on; before, bytes are widened.
TEST(MathUnit, BytesInThePlaceOfFloats) {
  Device device = gpu("p100_pcie");
  ASSERT_EQ(device.compute_capability, 60);
  const FlopPerSecond fp32 = device.cuda_core_peak.at(Dtype::fp32);
  EXPECT_EQ(math_unit(device, Dtype::int8).dtype, Dtype::fp32);
  device.compute_capability = 61;
  device.cuda_core_peak.erase(Dtype::int8);
  EXPECT_EQ(math_unit(device, Dtype::int8).dtype, Dtype::int8);
  EXPECT_EQ(math_unit(device, Dtype::int8).peak, fp32 * 4);
  device.cuda_core_peak.erase(Dtype::fp32);
  EXPECT_EQ(math_unit(device, Dtype::int8).dtype, Dtype::fp32) << "a guess";
}

TEST(MathUnit, NarrowTypesWidenStepByStep) {
  Device device = gpu("b200");
  const auto unit = [&](Dtype dtype) { return math_unit(device, dtype).dtype; };
  EXPECT_EQ(unit(Dtype::fp4), Dtype::fp4);
  device.tensor_core_peak.erase(Dtype::fp4);
  EXPECT_EQ(unit(Dtype::fp4), Dtype::fp8);
  device.tensor_core_peak.erase(Dtype::fp8);
  EXPECT_EQ(unit(Dtype::fp4), Dtype::fp16);
  EXPECT_EQ(unit(Dtype::int4), Dtype::int8);
  device.tensor_core_peak.erase(Dtype::fp16);
  device.cuda_core_peak.erase(Dtype::fp16);
  EXPECT_EQ(unit(Dtype::fp4), Dtype::fp32);
}

// CUDA C++ Programming Guide: sub-byte operands on 7.5 to 8.9.
TEST(MathSupport, Int4HasItsGenerations) {
  Device device = gpu("t4");
  device.tensor_core_peak.erase(Dtype::int4);
  for (const auto& [capability, support] : {std::pair{74, MathSupport::refused},
                                            {75, MathSupport::widened},
                                            {89, MathSupport::widened},
                                            {90, MathSupport::refused}}) {
    device.compute_capability = capability;
    EXPECT_EQ(math_support(device, Dtype::int4), support) << capability;
  }
}

// A GPU file may lack the rate of fp32: 64 lanes an SM that multiply and add.
TEST(MathUnit, GuessesTheRateOfFp32WhereNoneIsStated) {
  Device device = gpu("a100");
  device.cuda_core_peak.clear();
  EXPECT_NEAR(math_unit(device, Dtype::fp32).peak.value(),
              2 * 64 * device.sms * device.boost_clock.value(), 1);
}

}  // namespace
}  // namespace rooftile
