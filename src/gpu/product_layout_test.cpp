#include "gpu/product_layout.h"

#include <gtest/gtest.h>

#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

ProductLayout layout(const std::string& fields) {
  return product_layout(parse_workload("gemm a bf16 m=2 n=3 k=5 " + fields)->ops.front()).value();
}

// Rows and columns as stored, and whether they are read transposed.
struct Matrix {
  std::int64_t rows, columns;
  bool transposed;
};

void expect_matrix(const StoredMatrix& found, const Matrix& expected, const char* which) {
  EXPECT_EQ(found.rows, expected.rows) << which;
  EXPECT_EQ(found.columns, expected.columns) << which;
  EXPECT_EQ(found.leading, expected.columns) << which;
  EXPECT_EQ(found.transposed, expected.transposed) << which;
}

struct Case {
  const char* fields;
  std::int64_t m, n, k;
  Matrix a, b, c;
};

// By hand from out[2,3] = x[2,5]·w[5,3], dx = dout·wᵀ, dw = xᵀ·dout.
const Case kCases[] = {
    {"layout=nn", 2, 3, 5, {2, 5, false}, {5, 3, false}, {2, 3, false}},
    {"layout=nt", 2, 3, 5, {2, 5, false}, {3, 5, true}, {2, 3, false}},
    {"layout=tn", 2, 3, 5, {5, 2, true}, {5, 3, false}, {2, 3, false}},
    {"layout=nt phase=dgrad", 2, 5, 3, {2, 3, false}, {3, 5, false}, {2, 5, false}},
    {"layout=nn phase=dgrad", 2, 5, 3, {2, 3, false}, {5, 3, true}, {2, 5, false}},
    // dx is stored [5,2]: dxᵀ[5,2] = w[5,3]·doutᵀ[3,2].
    {"layout=tn phase=dgrad", 5, 2, 3, {5, 3, false}, {2, 3, true}, {5, 2, false}},
    {"layout=nn phase=wgrad", 5, 3, 2, {2, 5, true}, {2, 3, false}, {5, 3, false}},
    // dw is stored [3,5]: dwᵀ[3,5] = doutᵀ[3,2]·x[2,5].
    {"layout=nt phase=wgrad", 3, 5, 2, {2, 3, true}, {2, 5, false}, {3, 5, false}},
};

TEST(ProductLayout, OfEachLayoutAndPhase) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.fields);
    const ProductLayout found = layout(each.fields);
    EXPECT_EQ(found.m, each.m);
    EXPECT_EQ(found.n, each.n);
    EXPECT_EQ(found.k, each.k);
    expect_matrix(found.a, each.a, "a");
    expect_matrix(found.b, each.b, "b");
    expect_matrix(found.c, each.c, "c");
  }
}

TEST(ProductLayout, StridesAndOffsetsAreThoseOfTheStoredMatrices) {
  const ProductLayout found = layout("w_stride=8 x_offset=1 batch=4 out_dtype=fp32 bias=1");
  EXPECT_EQ(found.b.leading, 8);
  EXPECT_EQ(found.b.extent(), 24);
  EXPECT_EQ(found.a.offset, 1);
  EXPECT_EQ(found.batch, 4);
  EXPECT_EQ(found.c.dtype, Dtype::fp32);
  EXPECT_TRUE(found.bias);
}

TEST(ProductLayout, GradientsOfActivationProductsAreTwoKernels) {
  const Op op = parse_workload("gemm a bf16 m=2 n=3 k=5 weight=activation phase=dgrad")->ops[0];
  EXPECT_FALSE(product_layout(op));
}

}  // namespace
}  // namespace rooftile::gpu
