#include "rooftile/analysis/gemm_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rooftile {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Dtypes kHalf(Dtype::fp16);

Gemm linear(std::int64_t in, std::int64_t out, std::int64_t tokens) {
  return {.m = tokens, .n = out, .k = in};
}

// Verdicts follow from the conditions of the cuBLAS documentation, "Tensor Core Usage", for
// row-major tensors.
TEST(MisalignedRowDims, LinearLayer) {
  EXPECT_THAT(misaligned_row_dims(linear(1024, 4096, 513), kHalf), IsEmpty());
  EXPECT_THAT(misaligned_row_dims(linear(1024, 50257, 8192), kHalf), ElementsAre(GemmDim::n));
  EXPECT_THAT(misaligned_row_dims(linear(1023, 4096, 8192), kHalf), ElementsAre(GemmDim::k));
  EXPECT_THAT(misaligned_row_dims(linear(1024, 4100, 8192), kHalf), ElementsAre(GemmDim::n));
  EXPECT_THAT(misaligned_row_dims(linear(1024, 4100, 8192), Dtypes(Dtype::tf32)), IsEmpty());
  EXPECT_THAT(misaligned_row_dims(linear(1024, 4104, 8192), Dtypes(Dtype::int8)),
              ElementsAre(GemmDim::n));
}

TEST(MisalignedRowDims, AttentionProducts) {
  // Scores q·kᵀ: only the key length is a row.
  EXPECT_THAT(misaligned_row_dims({.m = 197, .n = 197, .k = 64}, kHalf), ElementsAre(GemmDim::n));
  EXPECT_THAT(misaligned_row_dims({.m = 197, .n = 200, .k = 64}, kHalf), IsEmpty());
  // Weights times values.
  EXPECT_THAT(misaligned_row_dims({.m = 197, .n = 64, .k = 197, .layout = GemmLayout::nn}, kHalf),
              ElementsAre(GemmDim::k));
  EXPECT_THAT(misaligned_row_dims({.m = 197, .n = 80, .k = 200, .layout = GemmLayout::nn}, kHalf),
              IsEmpty());
}

TEST(MisalignedRowDims, TransposedLeftOperandStoresM) {
  const Gemm gemm{.m = 1157, .n = 1160, .k = 4096, .layout = GemmLayout::tn};
  EXPECT_THAT(misaligned_row_dims(gemm, kHalf), ElementsAre(GemmDim::m));
}

TEST(MisalignedRowDims, AVectorIsNoMatrix) {
  EXPECT_THAT(misaligned_row_dims({.m = 64, .n = 1, .k = 64}, kHalf), IsEmpty());
}

TEST(MisalignedRowDims, LargerBoundary) {
  EXPECT_THAT(misaligned_row_dims(linear(1024, 1000, 512), kHalf, 128), ElementsAre(GemmDim::n));
}

TEST(WithSize, StridesGrowWithTheirRows) {
  const Gemm gemm{.m = 8, .n = 16, .k = 100, .x_stride = 104};
  EXPECT_EQ(with_size(gemm, GemmDim::k, 102).x_stride, 104);
  EXPECT_EQ(with_size(gemm, GemmDim::k, 112).x_stride, 112);
  EXPECT_EQ(with_size(gemm, GemmDim::k, 112).w_stride, 0);
}

TEST(WithSize, EveryOperandHasItsRow) {
  const Gemm gemm{.m = 8,
                  .n = 16,
                  .k = 32,
                  .layout = GemmLayout::nn,
                  .x_stride = 32,
                  .w_stride = 16,
                  .out_stride = 20};
  const Gemm wide = with_size(gemm, GemmDim::n, 24);
  EXPECT_EQ(wide.n, 24);
  EXPECT_EQ(wide.x_stride, 32);
  EXPECT_EQ(wide.w_stride, 24);
  EXPECT_EQ(wide.out_stride, 24);
  EXPECT_EQ(with_size(gemm, GemmDim::m, 9).m, 9);
  EXPECT_EQ(with_size(gemm, GemmDim::m, 9).out_stride, 20);
  EXPECT_EQ(size_of(gemm, GemmDim::m), 8);
  EXPECT_EQ(size_of(gemm, GemmDim::n), 16);
  EXPECT_EQ(size_of(gemm, GemmDim::k), 32);
}

TEST(RowDims, FollowTheLayout) {
  struct Case {
    GemmLayout layout;
    GemmDim x, w;
  };
  for (const Case& c : {Case{GemmLayout::nn, GemmDim::k, GemmDim::n},
                        {GemmLayout::nt, GemmDim::k, GemmDim::k},
                        {GemmLayout::tn, GemmDim::m, GemmDim::n},
                        {GemmLayout::tt, GemmDim::m, GemmDim::k}}) {
    EXPECT_EQ(row_dim_of_x(c.layout), c.x);
    EXPECT_EQ(row_dim_of_w(c.layout), c.w);
  }
}

TEST(DimName, LayersAndPlainProducts) {
  EXPECT_EQ(dim_name(linear(1, 2, 3), GemmDim::m), "tokens");
  EXPECT_EQ(dim_name(linear(1, 2, 3), GemmDim::k), "in_features");
  EXPECT_EQ(dim_name({.weight_is_parameter = false}, GemmDim::m), "m");
  EXPECT_EQ(dim_name({.weight_is_parameter = false}, GemmDim::k), "k");
  EXPECT_EQ(dim_name(linear(1, 2, 3), GemmDim::n), "out_features");
  EXPECT_EQ(dim_name({.weight_is_parameter = false}, GemmDim::n), "n");
}

}  // namespace
}  // namespace rooftile
