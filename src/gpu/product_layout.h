// A layer's matrix product as stored matrices: what a BLAS call needs.
#pragma once

#include "rooftile/base/result.h"
#include "rooftile/workload/op.h"

namespace rooftile::gpu {

// A row-major matrix in memory; `transposed` says that the product reads it so.
struct StoredMatrix {
  std::int64_t rows = 0, columns = 0;  // as stored
  std::int64_t leading = 0;            // elements from row to row
  std::int64_t offset = 0;             // elements before the first one
  bool transposed = false;
  Dtype dtype = Dtype::fp32;

  bool operator==(const StoredMatrix&) const = default;
  // Elements of one matrix of a batch, gaps included.
  std::int64_t extent() const { return rows * leading; }
};

// c[m,n] = a[m,k]·b[k,n], `batch` of them one behind the other.
struct ProductLayout {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  StoredMatrix a, b, c;
  Dtype math = Dtype::fp32;
  bool bias = false;  // one value per column of c is added
};

// The product of a gemm's phase; an error for the gradients of products of two activations, which
// are two kernels.
Result<ProductLayout> product_layout(const Op& op);

}  // namespace rooftile::gpu
