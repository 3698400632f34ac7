// cuBLAS's nine 16-byte conditions on whole layers: which operand breaks them, in each phase.
#include <set>

#include "reference.h"
#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {
namespace {

// Operands that are not 16-byte aligned, by letter: a, b, c (the output).
std::string misaligned(const Op& op) {
  const std::vector<MatrixProduct> products = matrix_products(op);
  const Alignment alignment = alignment_of(products.front());
  std::string letters;
  if (alignment.a_bytes < 16) letters += 'a';
  if (alignment.b_bytes < 16) letters += 'b';
  if (alignment.out_bytes < 16) letters += 'c';
  EXPECT_EQ(alignment.full(), letters.empty());
  return letters;
}

struct LinearCase {
  std::int64_t tokens, outputs, inputs;
  Dtype dtype;
  bool forward, dgrad, wgrad;  // all nine conditions hold
};

// Derived from the conditions of the cuBLAS documentation, "Tensor Core Usage", for contiguous
// row-major tensors: the forward product is cuBLAS's TN with m = outputs, n = tokens, k = inputs,
// the activation gradient NN, the weight gradient NT.
TEST(AlignmentVectors, LinearLayers) {
  constexpr LinearCase kCases[] = {
      {513, 4096, 1024, Dtype::fp16, true, true, true},
      {8192, 50257, 1024, Dtype::fp16, false, false, false},
      {8192, 4096, 1023, Dtype::fp16, false, false, false},
      {8192, 4100, 1024, Dtype::fp16, false, false, false},
      {8192, 4100, 1024, Dtype::bf16, false, false, false},
      {8192, 4100, 1024, Dtype::tf32, true, true, true},
  };
  for (const LinearCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.inputs << " -> " << c.outputs);
    const Gemm gemm = linear(c.tokens, c.outputs, c.inputs);
    EXPECT_EQ(misaligned(op_of(gemm, c.dtype)).empty(), c.forward);
    EXPECT_EQ(misaligned(op_of(gemm, c.dtype, Phase::dgrad)).empty(), c.dgrad);
    EXPECT_EQ(misaligned(op_of(gemm, c.dtype, Phase::wgrad)).empty(), c.wgrad);
  }
}

// The operand that the broken conditions name: the output's rows (m, ldc) in the forward pass, the
// same tensor as an input (k, ldb and n, ldb) in the gradients.
TEST(AlignmentVectors, AnOddOutputWidthBreaksTheOutputTensorAlone) {
  const Gemm gemm = linear(8192, 50257, 1024);
  EXPECT_EQ(misaligned(op_of(gemm, Dtype::fp16)), "c");
  EXPECT_EQ(misaligned(op_of(gemm, Dtype::fp16, Phase::dgrad)), "a");
  EXPECT_EQ(misaligned(op_of(gemm, Dtype::fp16, Phase::wgrad)), "b");
}

TEST(AlignmentVectors, BatchedProductsOfAttention) {
  const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k, GemmLayout layout) {
    Gemm gemm = linear(m, n, k);
    gemm.batch = 96;
    gemm.layout = layout;
    gemm.weight_is_parameter = false;
    return misaligned(op_of(gemm, Dtype::fp16));
  };
  EXPECT_EQ(product(197, 197, 64, GemmLayout::nt), "c") << "odd key length: m and ldc";
  EXPECT_EQ(product(197, 200, 64, GemmLayout::nt), "") << "only the query length is odd";
  EXPECT_EQ(product(197, 64, 197, GemmLayout::nn), "a") << "odd key length: k and its stride";
  EXPECT_EQ(product(256, 256, 80, GemmLayout::nt), "") << "80 = 8 * 10";
}

// cuBLAS documentation, "8-bit Floating Point Data Types Usage": all dims a multiple of 16.
TEST(AlignmentVectors, Fp8ProductsMustBePadded) {
  const auto padded = [](std::int64_t k) {
    return must_pad_fp8(matrix_products(op_of(linear(4096, 4096, k), Dtype::fp8)).front());
  };
  EXPECT_TRUE(padded(2501));
  EXPECT_FALSE(padded(2512));
  EXPECT_FALSE(must_pad_fp8(matrix_products(op_of(linear(64, 64, 2501), Dtype::fp16)).front()));
}

}  // namespace
}  // namespace rooftile
