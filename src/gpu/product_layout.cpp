#include "gpu/product_layout.h"

#include <utility>

namespace rooftile::gpu {
namespace {

StoredMatrix stored(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t stride,
                    std::int64_t offset, Dtype dtype) {
  StoredMatrix matrix{rows, columns, 0, offset, transposed, dtype};
  if (transposed) std::swap(matrix.rows, matrix.columns);
  matrix.leading = stride > 0 ? stride : matrix.columns;
  return matrix;
}

StoredMatrix read_transposed(StoredMatrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

// c = a·b where c may be stored transposed: then cᵀ = bᵀ·aᵀ is computed into it as it lies.
ProductLayout product(std::int64_t m, std::int64_t n, std::int64_t k, const StoredMatrix& a,
                      const StoredMatrix& b, const StoredMatrix& c) {
  ProductLayout layout;
  layout.m = m;
  layout.n = n;
  layout.k = k;
  layout.a = a;
  layout.b = b;
  layout.c = c;
  if (c.transposed) {
    std::swap(layout.m, layout.n);
    layout.a = read_transposed(b);
    layout.b = read_transposed(a);
    layout.c = read_transposed(c);
  }
  return layout;
}

}  // namespace

Result<ProductLayout> product_layout(const Op& op) {
  const auto& g = std::get<Gemm>(op.body);
  const bool x_transposed = g.layout == GemmLayout::tn || g.layout == GemmLayout::tt;
  const bool w_transposed = g.layout == GemmLayout::nt || g.layout == GemmLayout::tt;
  const StoredMatrix x = stored(g.m, g.k, x_transposed, g.x_stride, g.x_offset, op.dtypes.input);
  const StoredMatrix w = stored(g.k, g.n, w_transposed, g.w_stride, g.w_offset, op.dtypes.weight);
  const StoredMatrix out = stored(g.m, g.n, false, g.out_stride, g.out_offset, op.dtypes.output);
  if (op.phase != Phase::forward && !g.weight_is_parameter) {
    return fail("the gradients of a product of two activations are two kernels");
  }
  ProductLayout layout;
  if (op.phase == Phase::dgrad) {
    layout = product(g.m, g.k, g.n, out, read_transposed(w), x);
  } else if (op.phase == Phase::wgrad) {
    layout = product(g.k, g.n, g.m, read_transposed(x), out, w);
  } else {
    layout = product(g.m, g.n, g.k, x, w, out);
    layout.bias = g.bias;
  }
  layout.batch = g.batch;
  layout.math = op.dtypes.input;
  return layout;
}

}  // namespace rooftile::gpu
