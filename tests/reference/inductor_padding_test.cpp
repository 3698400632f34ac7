// Thresholds of PyTorch's compiler, torch/_inductor (fx_passes/pad_mm.py, config.py, graph.py).
#include "rooftile/analysis/inductor_padding.h"

#include "reference.h"

namespace rooftile {
namespace {

MatrixProduct product(std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype) {
  return matrix_products(op_of(linear(m, n, k), dtype)).front();
}

TEST(InductorPadding, AlignmentByDtype) {
  EXPECT_EQ(inductor_alignment(Dtype::fp16), 8);
  EXPECT_EQ(inductor_alignment(Dtype::bf16), 8);
  EXPECT_EQ(inductor_alignment(Dtype::fp32), 4);
  EXPECT_EQ(inductor_alignment(Dtype::fp64), 1);
  EXPECT_EQ(inductor_alignment(Dtype::int8), 1);
  EXPECT_EQ(inductor_padded_size(50257, Dtype::bf16), 50264);
  EXPECT_EQ(inductor_padded_size(50257, Dtype::fp32), 50260);
  EXPECT_EQ(inductor_padded_size(1, Dtype::bf16), 1);
  EXPECT_DOUBLE_EQ(kInductorMinSpeedup, 1.1);
}

// Half the machine balance: 76.5 flop per byte on A100 80 GB, 147.6 on H100.
TEST(InductorPadding, ComputeBoundAboveHalfTheRidge) {
  const Device a100 = built_in("a100_sxm_80gb"), h100 = built_in("h100_sxm");
  EXPECT_NEAR(kInductorRidgeShare * a100.ridge(Dtype::fp16)->value(), 76.5, 0.1);
  EXPECT_NEAR(kInductorRidgeShare * h100.ridge(Dtype::fp16)->value(), 147.6, 0.2);
  // m·n·k / (m·k + k·n + m·n) of b x 4096 x 4096 is 62.06 at b = 64 and 120.47 at b = 128.
  EXPECT_FALSE(inductor_is_compute_bound(product(64, 4096, 4096, Dtype::fp16), a100));
  EXPECT_TRUE(inductor_is_compute_bound(product(128, 4096, 4096, Dtype::fp16), a100));
  EXPECT_FALSE(inductor_is_compute_bound(product(128, 4096, 4096, Dtype::fp16), h100));
}

TEST(InductorPadding, LongBf16SumsCountAsComputeBoundBeforeHopper) {
  const MatrixProduct long_sum = product(2, 13, 20569856, Dtype::bf16);
  EXPECT_TRUE(inductor_is_compute_bound(long_sum, built_in("a100_sxm_80gb")));
  EXPECT_FALSE(inductor_is_compute_bound(long_sum, built_in("h100_sxm")));
  EXPECT_FALSE(
      inductor_is_compute_bound(product(2, 13, 20569856, Dtype::fp16), built_in("a100_sxm_80gb")));
}

TEST(InductorPadding, ForcedForEnormousOddSums) {
  const Device a100 = built_in("a100_sxm_80gb");
  EXPECT_TRUE(inductor_forces_padding(product(2, 13, 8388608, Dtype::bf16), a100));
  EXPECT_FALSE(inductor_forces_padding(product(2, 13, 8388607, Dtype::bf16), a100));
  EXPECT_FALSE(inductor_forces_padding(product(2, 12, 8388608, Dtype::bf16), a100));
  EXPECT_FALSE(inductor_forces_padding(product(2, 13, 8388608, Dtype::fp16), a100));
  EXPECT_FALSE(inductor_forces_padding(product(2, 13, 8388608, Dtype::bf16), built_in("h100_sxm")));
}

TEST(InductorPadding, LearnedHeuristicNeedsLargeDims) {
  const Device a100 = built_in("a100_sxm_80gb"), h100 = built_in("h100_sxm");
  EXPECT_TRUE(inductor_has_learned_heuristic(product(512, 512, 512, Dtype::fp16), a100));
  EXPECT_FALSE(inductor_has_learned_heuristic(product(511, 512, 512, Dtype::fp16), a100));
  EXPECT_FALSE(inductor_has_learned_heuristic(product(767, 768, 768, Dtype::fp16), h100));
  EXPECT_TRUE(inductor_has_learned_heuristic(product(768, 768, 768, Dtype::fp16), h100));
  EXPECT_FALSE(
      inductor_has_learned_heuristic(product(768, 768, 768, Dtype::fp16), built_in("v100_sxm2")));
}

TEST(InductorPadding, StridesOfIntermediates) {
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::fp16), 1088);  // 128 bytes are 64 elements
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::fp32), 1056);
  EXPECT_EQ(inductor_padded_stride(1024, Dtype::fp16), 1024);
  EXPECT_EQ(inductor_padded_stride(1001, Dtype::fp16), 1001) << "not above 1024 elements";
}

Convolution conv(std::int64_t c, std::int64_t k, std::int64_t kernel, std::int64_t groups = 1) {
  Convolution conv;
  conv.n = 32, conv.c = c, conv.k = k, conv.groups = groups;
  conv.input = {56, 56}, conv.kernel = {kernel, kernel};
  return conv;
}

TEST(InductorPadding, ChannelsLast) {
  const Convolution plain = conv(256, 256, 3);
  const auto stays = [](std::vector<Convolution> convs, std::int64_t nodes, bool training) {
    return inductor_stays_channels_first(convs, nodes, training);
  };
  EXPECT_FALSE(stays({plain}, 299, true));
  EXPECT_TRUE(stays({plain}, 300, true)) << "300 nodes per convolution";
  EXPECT_TRUE(stays({plain, conv(256, 256, 3, 32)}, 10, true)) << "grouped";
  EXPECT_FALSE(stays({plain, conv(256, 256, 3, 256)}, 10, true)) << "depthwise";
  EXPECT_TRUE(stays({plain, conv(256, 128, 3)}, 10, true)) << "2 * out <= in";
  EXPECT_FALSE(stays({plain, conv(256, 128, 1)}, 10, true)) << "1x1";
  EXPECT_TRUE(stays({conv(64, 64, 3), conv(32, 64, 3)}, 10, false)) << "all small";
  EXPECT_FALSE(stays({conv(64, 64, 3), plain}, 10, false));
}

}  // namespace
}  // namespace rooftile
