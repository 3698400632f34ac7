#include "rooftile/analysis/alignment.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

Alignment alignment(std::string_view text) {
  const auto workload = parse_workload(text);
  EXPECT_TRUE(workload) << text;
  return alignment_of(matrix_products(workload->ops.at(0)).at(0));
}

struct AlignmentCase {
  std::string_view text;
  Alignment expected;  // bytes of a, b, out
};

TEST(Alignment, BytesOfEachOperand) {
  const AlignmentCase cases[] = {
      {"gemm a fp16 m=7 n=64 k=64", {16, 16, 16}},                 // the token count never counts
      {"gemm a fp16 m=64 n=50257 k=64", {16, 16, 2}},              // out rows
      {"gemm a fp16 m=64 n=50257 k=64 phase=dgrad", {2, 16, 16}},  // dout rows
      {"gemm a fp16 m=64 n=50257 k=64 phase=wgrad", {16, 2, 16}},
      {"gemm a fp16 m=64 n=64 k=100", {8, 8, 16}},
      {"gemm a tf32 m=64 n=64 k=100", {16, 16, 16}},
      {"gemm a fp16 m=64 n=100 k=64 layout=nn", {16, 8, 8}},    // w rows are n long
      {"gemm a fp16 m=100 n=64 k=64 layout=tn", {8, 16, 16}},   // x rows are m long
      {"gemm a fp16 m=64 n=64 k=64 x_stride=65", {2, 16, 16}},  // a view of a wider tensor
      {"gemm a fp16 m=64 n=64 k=64 w_offset=4", {16, 8, 16}},
      {"gemm a int4 m=64 n=64 k=33", {0.5, 0.5, 16}},
      {"gemm a fp16 m=64 n=64 k=100 weight_dtype=fp8", {8, 4, 16}},
  };
  for (const AlignmentCase& c : cases) EXPECT_EQ(alignment(c.text), c.expected) << c.text;
}

TEST(Alignment, ScoresOfFusedAttentionStayOnChip) {
  EXPECT_TRUE(alignment("attention a fp16 batch=1 heads=1 q=197 d=64").full());
  EXPECT_EQ(alignment("attention a fp16 batch=1 heads=1 q=197 d=64 fused=0").out_bytes, 2);
}

TEST(Alignment, ElementsAndRounding) {
  EXPECT_EQ(alignment_elements(Dtype::bf16), 8);
  EXPECT_EQ(alignment_elements(Dtype::tf32), 4);
  EXPECT_EQ(alignment_elements(Dtype::fp8), 16);
  EXPECT_EQ(round_up(50257, 64), 50304);
  EXPECT_EQ(round_up(64, 64), 64);
}

}  // namespace
}  // namespace rooftile
