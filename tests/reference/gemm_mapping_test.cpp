// The matrix product behind a layer, in each phase.
#include <array>

#include "reference.h"
#include "rooftile/analysis/gemm_form.h"

namespace rooftile {
namespace {

using Dims = std::array<std::int64_t, 3>;

Dims dims(const Op& op) {
  const std::vector<MatrixProduct> products = matrix_products(op);
  EXPECT_EQ(products.size(), 1u);
  return {products.front().m, products.front().n, products.front().k};
}

// NVIDIA Linear/Fully-Connected Layers User's Guide, table of dimensions, which counts columns of
// a column-major result first: its (M, N, K) = (outputs, batch, inputs) is (n, m, k) here.
TEST(GemmMapping, LinearLayer) {
  const Gemm gemm = linear(512, 4096, 1024);
  EXPECT_EQ(dims(op_of(gemm, Dtype::fp16)), (Dims{512, 4096, 1024}));
  EXPECT_EQ(dims(op_of(gemm, Dtype::fp16, Phase::dgrad)), (Dims{512, 1024, 4096}));
  EXPECT_EQ(dims(op_of(gemm, Dtype::fp16, Phase::wgrad)), (Dims{1024, 4096, 512}));
}

Convolution conv2d(std::int64_t c, std::int64_t k, std::int64_t size, std::int64_t kernel,
                   std::int64_t stride, std::int64_t pad) {
  Convolution conv;
  conv.n = 256, conv.c = c, conv.k = k;
  conv.input = {size, size}, conv.kernel = {kernel, kernel}, conv.stride = {stride, stride};
  conv.pad_begin = conv.pad_end = {pad, pad};
  return conv;
}

// NVIDIA Convolutional Layers User's Guide, implicit GEMM: forward (N·P·Q, K, C·R·S), activation
// gradient (N·H·W, C, K·R·S), weight gradient (C·R·S, K, N·P·Q).
TEST(GemmMapping, Convolutions) {
  struct Case {
    Convolution conv;
    Dims forward, dgrad, wgrad;
  };
  const Case cases[] = {
      {conv2d(3, 64, 224, 7, 2, 3), {3211264, 64, 147}, {12845056, 3, 3136}, {147, 64, 3211264}},
      {conv2d(4, 64, 224, 7, 2, 3), {3211264, 64, 196}, {12845056, 4, 3136}, {196, 64, 3211264}},
      {conv2d(64, 64, 56, 3, 1, 1), {802816, 64, 576}, {802816, 64, 576}, {576, 64, 802816}},
      {conv2d(256, 64, 56, 1, 1, 0), {802816, 64, 256}, {802816, 256, 64}, {256, 64, 802816}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.conv.c);
    EXPECT_EQ(dims(op_of(c.conv, Dtype::fp16)), c.forward);
    EXPECT_EQ(dims(op_of(c.conv, Dtype::fp16, Phase::dgrad)), c.dgrad);
    EXPECT_EQ(dims(op_of(c.conv, Dtype::fp16, Phase::wgrad)), c.wgrad);
  }
}

// The same guide: padding three input channels to four adds a third to the nominal work.
TEST(GemmMapping, PaddingThreeChannelsToFour) {
  const auto flop = [](std::int64_t c) {
    return matrix_products(op_of(conv2d(c, 64, 224, 7, 2, 3), Dtype::fp16)).front().flop().value();
  };
  EXPECT_DOUBLE_EQ(flop(4) / flop(3), 4.0 / 3.0);
}

}  // namespace
}  // namespace rooftile
