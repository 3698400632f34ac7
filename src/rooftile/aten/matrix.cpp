// mm, addmm, bmm, linear and their like.
#include <utility>

#include "rooftile/aten/handlers.h"

namespace rooftile::aten_detail {
namespace {

// How a matrix [rows, cols] lies in memory, by the strides of its last two axes.
struct Storage {
  bool transposed = false;
  std::int64_t leading = 0;  // 0 = dense
};

Storage storage_of(const Tensor& tensor) {
  const std::size_t axes = tensor.rank();
  if (axes < 2 || tensor.strides.empty()) return {};
  const std::int64_t rows = tensor.dims[axes - 2], cols = tensor.dims[axes - 1];
  const std::int64_t row_stride = tensor.strides[axes - 2], col_stride = tensor.strides[axes - 1];
  // A single row or column has any stride; without a contiguous axis the operand is copied first.
  if (col_stride == 1 || cols == 1) {
    return {.leading = rows > 1 && row_stride > cols ? row_stride : 0};
  }
  if (row_stride != 1 && rows != 1) return {};
  return {.transposed = true, .leading = cols > 1 && col_stride > rows ? col_stride : 0};
}

GemmLayout layout_of(bool x_transposed, bool w_transposed) {
  if (x_transposed) return w_transposed ? GemmLayout::tt : GemmLayout::tn;
  return w_transposed ? GemmLayout::nt : GemmLayout::nn;
}

void store(const Storage& x, const Storage& w, Gemm& gemm) {
  gemm.layout = layout_of(x.transposed, w.transposed);
  gemm.x_stride = x.leading;
  gemm.w_stride = w.leading;
}

std::vector<Op> finish(const Gemm& gemm, const Dtypes& dtypes) { return valid(gemm, dtypes); }

// x [m,k] · w [k,n], both with `axes` axes; the ones before the last two are batches.
std::optional<Gemm> product(const Tensor& x, const Tensor& w, std::size_t axes) {
  if (x.rank() != axes || w.rank() != axes) return std::nullopt;
  Gemm gemm{.m = x.size(axes - 2), .n = w.size(axes - 1), .k = x.size(axes - 1)};
  if (w.size(axes - 2) != gemm.k) return std::nullopt;
  for (std::size_t axis = 0; axis + 2 < axes; ++axis) {
    if (x.size(axis) != w.size(axis)) return std::nullopt;
    gemm.batch *= x.size(axis);
  }
  gemm.weight_is_parameter = axes == 2;
  store(storage_of(x), storage_of(w), gemm);
  return gemm;
}

// One value per output column.
bool is_bias(const Arguments& arguments, std::size_t position, std::int64_t n) {
  const auto bias = arguments.tensor(position);
  return bias && bias->dims.back() == n && bias->elements() == n;
}

std::vector<Op> plain(const Arguments& arguments, std::size_t first, std::size_t axes) {
  const auto x = arguments.tensor(first), w = arguments.tensor(first + 1);
  if (!x || !w || x->dtype != w->dtype) return {};
  auto gemm = product(*x, *w, axes);
  if (!gemm) return {};
  if (first == 1 && axes == 2) gemm->bias = is_bias(arguments, 0, gemm->n);
  return finish(*gemm, Dtypes(x->dtype));
}

// The axes before the last as one, where memory allows it without a copy.
Tensor flattened(const Tensor& tensor) {
  Tensor flat{.dims = {1, tensor.dims.back()}, .strides = {}, .dtype = tensor.dtype};
  for (std::size_t axis = 0; axis + 1 < tensor.rank(); ++axis) flat.dims[0] *= tensor.size(axis);
  if (tensor.strides.empty()) return flat;
  for (std::size_t axis = 0; axis + 2 < tensor.rank(); ++axis) {
    const bool merges = tensor.size(axis) == 1 ||
                        tensor.strides[axis] == tensor.size(axis + 1) * tensor.strides[axis + 1];
    if (!merges) return flat;
  }
  const std::size_t last = tensor.rank() - 1;
  const std::int64_t row_stride = last > 0 ? tensor.strides[last - 1] : flat.dims[1];
  flat.strides = {row_stride, tensor.strides[last]};
  return flat;
}

Tensor transposed(Tensor matrix) {
  std::swap(matrix.dims[0], matrix.dims[1]);
  if (matrix.strides.empty()) {
    matrix.strides = {1, matrix.dims[0]};
  } else {
    std::swap(matrix.strides[0], matrix.strides[1]);
  }
  return matrix;
}

// linear(x [..., k], w [n, k], bias).
std::vector<Op> linear(const Arguments& arguments) {
  const auto x = arguments.tensor(0), w = arguments.tensor(1);
  if (!x || !w || w->rank() != 2 || x->dtype != w->dtype) return {};
  auto gemm = product(flattened(*x), transposed(*w), 2);
  if (!gemm) return {};
  gemm->bias = is_bias(arguments, 2, gemm->n);
  if (arguments.is_tensor(2) && !gemm->bias) return {};
  return finish(*gemm, Dtypes(x->dtype));
}

// matmul(x, w): w with two axes multiplies every row of x; with more, the batches must be equal.
std::vector<Op> matmul(const Arguments& arguments) {
  const auto x = arguments.tensor(0), w = arguments.tensor(1);
  if (!x || !w || x->dtype != w->dtype) return {};
  const bool shared = w->rank() == 2 && x->rank() >= 2;
  const auto gemm = shared          ? product(flattened(*x), *w, 2)
                    : w->rank() > 2 ? product(*x, *w, w->rank())
                                    : std::optional<Gemm>();
  return gemm ? finish(*gemm, Dtypes(x->dtype)) : std::vector<Op>{};
}

// mv(x [m,k], v [k]) and addmv(bias, x, v).
std::vector<Op> matrix_vector(const Arguments& arguments, std::size_t first) {
  const auto x = arguments.tensor(first), v = arguments.tensor(first + 1);
  if (!x || !v || x->rank() != 2 || v->rank() != 1 || x->dtype != v->dtype) return {};
  if (v->size(0) != x->size(1)) return {};
  Gemm gemm{.m = x->size(0), .n = 1, .k = x->size(1), .layout = GemmLayout::nn};
  store(storage_of(*x), {}, gemm);
  return finish(gemm, Dtypes(x->dtype));
}

// _grouped_mm(x, w, ends of the groups, …): rows [m,k] in groups by weights [groups,k,n], or its
// weight gradient, [m,k] by [k,n] with k in groups. Groups count as equally large.
std::vector<Op> grouped(const Arguments& arguments) {
  const auto x = arguments.tensor(0), w = arguments.tensor(1), ends = arguments.tensor(2);
  if (!x || !w || !ends || x->dtype != w->dtype || x->rank() != 2 || ends->rank() != 1) return {};
  const std::int64_t groups = ends->size(0);
  const auto share = [groups](std::int64_t size) { return (size + groups - 1) / groups; };
  Gemm gemm{.m = x->size(0), .k = x->size(1), .batch = groups, .layout = GemmLayout::nn};
  gemm.n = w->dims.back();
  if (w->size(w->rank() - 2) != gemm.k) return {};
  if (w->rank() == 3 && w->size(0) == groups) {
    gemm.m = share(gemm.m);
  } else if (w->rank() == 2) {
    gemm.k = share(gemm.k);
  } else {
    return {};
  }
  store(storage_of(*x), storage_of(*w), gemm);
  return finish(gemm, Dtypes(x->dtype));
}

// _scaled_mm(x, w, scale of x, scale of w, bias, scale of the result, type of the result, …).
// Before PyTorch 2.5 the scales came later; these are left alone.
std::vector<Op> scaled(const Arguments& arguments) {
  const auto x = arguments.tensor(0), w = arguments.tensor(1);
  if (!x || !w || !arguments.is_tensor(2) || !arguments.is_tensor(3)) return {};
  auto gemm = product(*x, *w, 2);
  if (!gemm) return {};
  gemm->bias = is_bias(arguments, 4, gemm->n);
  const auto out = parse_type_number(arguments.value(6));
  if (!out) return {};
  return finish(*gemm, Dtypes(x->dtype, w->dtype, *out));
}

}  // namespace

Answer matrix_product_op(std::string_view name, const Arguments& arguments) {
  if (name == "mm") return plain(arguments, 0, 2);
  if (name == "addmm" || name == "addmm_" || name == "_addmm_activation") {
    return plain(arguments, 1, 2);
  }
  if (name == "bmm") return plain(arguments, 0, 3);
  if (name == "baddbmm" || name == "baddbmm_") return plain(arguments, 1, 3);
  if (name == "linear") return linear(arguments);
  if (name == "matmul") return matmul(arguments);
  if (name == "mv") return matrix_vector(arguments, 0);
  if (name == "addmv" || name == "addmv_") return matrix_vector(arguments, 1);
  if (name == "_grouped_mm") return grouped(arguments);
  if (name == "_scaled_mm") return scaled(arguments);
  return std::nullopt;
}

}  // namespace rooftile::aten_detail
