#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "rooftile/rooftile.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Comparison compared(std::string_view before, std::string_view after) {
  const auto first = parse_workload(before), second = parse_workload(after);
  EXPECT_TRUE(first && second);
  return compare(*first, *second, *find_device("a100"));
}

constexpr std::string_view kOdd = "gemm a bf16 m=8192 n=50257 k=4096\n";
constexpr std::string_view kPadded = "gemm a bf16 m=8192 n=50304 k=4096\n";

TEST(Compare, APaddedVocabularyIsFasterAndTheWayBackSlower) {
  EXPECT_EQ(verdict_of(compared(kOdd, kPadded)), Verdict::faster);
  const Comparison back = compared(kPadded, kOdd);
  EXPECT_EQ(verdict_of(back), Verdict::slower);
  EXPECT_LT(back.saving.expected, Seconds());
}

TEST(Compare, TheSameIsTheSame) {
  const Comparison same = compared(kOdd, kOdd);
  EXPECT_EQ(verdict_of(same), Verdict::same);
  EXPECT_EQ(same.unchanged, 1);
  EXPECT_EQ(same.saving.high, Seconds());
}

TEST(Compare, ADifferenceWithinTheErrorIsUnclear) {
  const Comparison close =
      compared("gemm a bf16 m=8192 n=4096 k=4096\n", "gemm a bf16 m=8192 n=4096 k=4160\n");
  EXPECT_EQ(verdict_of(close), Verdict::unclear);
}

// Twice the output channels are twice the work in the same kernels.
TEST(Compare, TwiceTheWorkOfOneKindIsSlower) {
  EXPECT_EQ(
      verdict_of(compared("conv a fp16 n=64 c=256 k=128 in=28x28 kernel=3x3 pad=1 layout=nhwc\n",
                          "conv a fp16 n=64 c=256 k=256 in=28x28 kernel=3x3 pad=1 layout=nhwc\n")),
      Verdict::slower);
  EXPECT_EQ(
      verdict_of(compared("recurrent a fp16 cell=lstm batch=60 seq=50 input=512 hidden=512\n",
                          "recurrent a fp16 cell=lstm batch=60 seq=100 input=512 hidden=512\n")),
      Verdict::slower);
  EXPECT_EQ(verdict_of(compared("norm a fp16 fn=layer rows=8192 cols=2048\n",
                                "norm a fp16 fn=layer rows=16384 cols=2048\n")),
            Verdict::slower);
}

TEST(Compare, WithoutTimesThereIsNoVerdict) {
  EXPECT_EQ(verdict_of(compared("other x fp32 fn=MyOp\n", kOdd)), Verdict::unknown);
}

TEST(Compare, EqualLayersUnderOtherNamesArePairs) {
  const Comparison renamed = compared(
      "gemm a bf16 m=64 n=64 k=64\ngemm b bf16 m=64 n=64 k=64\nsoftmax s fp32 rows=9 "
      "cols=9\n",
      "softmax /s fp32 rows=9 cols=9\ngemm /x bf16 m=64 n=64 k=64\ngemm /y bf16 m=64 n=64 "
      "k=64\n");
  EXPECT_EQ(renamed.unchanged, 3);
  EXPECT_TRUE(renamed.changed.empty());
}

TEST(Compare, LayersOfDeeperModelsArePairs) {
  const Comparison deeper = compared(
      "gemm layers.{0-11}.a bf16 m=64 n=64 k=64 count=12\n"
      "gemm layers.{0-11}.b bf16 m=64 n=96 k=64 count=12\n",
      "gemm layers.{0-23}.a bf16 m=96 n=64 k=64 count=24\n"
      "gemm layers.{0-23}.b bf16 m=96 n=96 k=64 count=24\n");
  ASSERT_EQ(deeper.changed.size(), 2u);
  for (const auto& pair : deeper.changed) EXPECT_TRUE(pair.before && pair.after);
}

TEST(Compare, WhatComesAndGoesCountsInFull) {
  const Comparison fused =
      compared("gemm a bf16 m=4096 n=4096 k=4096\nelementwise e bf16 fn=relu elements=16777216\n",
               "gemm a bf16 m=4096 n=4096 k=4096\n");
  ASSERT_EQ(fused.changed.size(), 1u);
  EXPECT_FALSE(fused.changed[0].after);
  EXPECT_EQ(verdict_of(fused), Verdict::faster);
  EXPECT_NEAR((fused.before.total.expected - fused.after.total.expected).value(),
              fused.saving.expected.value(), 1e-12);
}

TEST(Compare, ACountThatGrowsCostsTheRunsThatCome) {
  const Comparison longer = compared("gemm a bf16 m=512 n=512 k=512 count=2\n",
                                     "gemm a bf16 m=512 n=512 k=512 count=3\n");
  EXPECT_NEAR(longer.saving.expected.value() * -3, longer.after.total.expected.value(), 1e-12);
  EXPECT_EQ(verdict_of(longer), Verdict::slower);
}

TEST(Compare, TextNamesTheChange) {
  const std::string text = render_comparison_text(compared(kOdd, kPadded));
  EXPECT_NE(text.find("The second is faster: saves "), std::string::npos) << text;
  EXPECT_NE(text.find("n 50257 → 50304"), std::string::npos) << text;
}

Seconds time_on_a100(const std::string& text) {
  return check(*parse_workload(text), *find_device("a100"), {}).total.expected;
}

std::string square(int tokens, int width) {
  return fmt::format("gemm a bf16 m={} n={} k={}\n", tokens, width, width);
}

// Larger layers use the GPU better (NVIDIA, Linear/Fully-Connected Layers User's Guide): twice the
// tokens take less than twice the time, four times the weights less than four times, until the GPU
// is full.
TEST(Compare, DoubleTheSizeTakesLessThanDoubleTheTime) {
  const Seconds small = time_on_a100(square(1024, 1024));
  EXPECT_LT(time_on_a100(square(2048, 1024)), small * 1.9);
  EXPECT_LT(time_on_a100(square(1024, 2048)), small * 3.6);
  const Seconds full = time_on_a100(square(16384, 8192));
  EXPECT_GT(time_on_a100(square(32768, 8192)), full * 1.9);
  EXPECT_GT(time_on_a100(square(16384, 16384)), full * 3.6);
}

// A depthwise-separable block multiplies 8.7 times less than the dense layer in its place, and is
// less than four times as fast: both of its halves wait for memory. For wide 1x1 layers there is
// nothing to be had.
TEST(Compare, ADenseLayerCostsLittleMoreThanASeparableOne) {
  const Seconds dense =
      time_on_a100("conv dense fp16 n=32 c=256 k=256 in=56x56 kernel=3x3 pad=1 layout=nhwc\n");
  const Seconds separable = time_on_a100(
      "conv dw fp16 n=32 c=256 k=256 groups=256 in=56x56 kernel=3x3 pad=1 layout=nhwc\n"
      "conv pw fp16 n=32 c=256 k=256 in=56x56 kernel=1x1 layout=nhwc\n");
  EXPECT_LT(dense, separable * 4.0);
  EXPECT_GT(dense, separable);
}

}  // namespace
}  // namespace rooftile
