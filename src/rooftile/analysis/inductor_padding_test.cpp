#include "rooftile/analysis/inductor_padding.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(InductorPadding, SizesGrowToWholeVectorsButForOne) {
  EXPECT_EQ(inductor_padded_size(1, Dtype::bf16), 1);
  EXPECT_EQ(inductor_padded_size(2, Dtype::bf16), 8);
  EXPECT_EQ(inductor_padded_size(8, Dtype::fp16), 8);
  EXPECT_EQ(inductor_padded_size(9, Dtype::fp16), 16);
  EXPECT_EQ(inductor_padded_size(9, Dtype::fp32), 12);
  EXPECT_EQ(inductor_padded_size(9, Dtype::tf32), 12);
  EXPECT_EQ(inductor_padded_size(9, Dtype::fp64), 9);
}

// Rows of more than 1,024 elements are whole lines of 128 bytes.
TEST(InductorPadding, LongRowsGrowToWholeLines) {
  EXPECT_EQ(inductor_padded_stride(1023, Dtype::bf16), 1023);
  EXPECT_EQ(inductor_padded_stride(1024, Dtype::bf16), 1024);
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::bf16), 1088);
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::fp32), 1056);
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::int8), 1152);
  EXPECT_EQ(inductor_padded_stride(1025, Dtype::int4), 1025);
}

}  // namespace
}  // namespace rooftile
