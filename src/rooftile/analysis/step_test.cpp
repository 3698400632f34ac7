#include "rooftile/analysis/step.h"

#include <gtest/gtest.h>

#include "rooftile/workload/training.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Workload trained(std::string_view text) { return derive_training(*parse_workload(text)); }

// S. Bekman, Machine Learning Engineering, "Anatomy of Model's Memory Usage": AdamW in mixed
// precision takes 18 bytes a parameter: weights 6, gradients 4, state 8.
TEST(Step, AdamWInMixedPrecisionTakes18BytesAParameter) {
  const MemoryEstimate memory = estimate_memory(trained("gemm a bf16 m=1 n=1000 k=1000\n"));
  const Range<Bytes> state = memory.gradients + memory.optimizer;
  EXPECT_DOUBLE_EQ(memory.weights.value() + state.expected.value(), 18e6);
  EXPECT_DOUBLE_EQ(memory.weights.value() + state.low.value(), 8e6);  // all in bf16
}

TEST(Step, AdamWInFp32Takes16BytesAParameter) {
  const MemoryEstimate memory = estimate_memory(trained("gemm a fp32 m=1 n=1000 k=1000\n"));
  EXPECT_DOUBLE_EQ((memory.gradients + memory.optimizer).high.value() + memory.weights.value(),
                   16e6);
}

// The same chapter: one hidden state of Llama-3-8B at 32,768 tokens in bf16 is 0.25 GiB.
TEST(Step, ActivationsAreTheForwardOutputs) {
  const MemoryEstimate memory =
      estimate_memory(trained("norm n bf16 fn=rms rows=32768 cols=4096 count=4\n"));
  EXPECT_LT(memory.activations.low.value(), 0x1p30);
  EXPECT_GT(memory.activations.high.value(), 0x1p30);
}

TEST(Step, InferenceKeepsNoGradients) {
  const MemoryEstimate memory = estimate_memory(*parse_workload("gemm a bf16 m=64 n=32 k=16\n"));
  EXPECT_EQ(memory.gradients.high, Bytes());
  EXPECT_EQ(memory.optimizer.high, Bytes());
  EXPECT_DOUBLE_EQ(memory.weights.value(), 2 * 32 * 16);
}

TEST(Step, EveryRepeatIsALaunch) {
  EXPECT_DOUBLE_EQ(
      estimate_host(*parse_workload("softmax s fp32 rows=1 cols=2 count=7\ncast c fp32 "
                                    "out_dtype=fp16 elements=9\n"))
          .launches,
      8);
}

}  // namespace
}  // namespace rooftile
