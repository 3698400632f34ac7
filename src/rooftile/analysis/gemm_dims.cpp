#include "rooftile/analysis/gemm_dims.h"

#include <algorithm>
#include <array>

namespace rooftile {
namespace {

bool fills_bytes(std::int64_t elements, Dtype dtype, std::int64_t bytes) {
  return elements * info(dtype).bits % (8 * bytes) == 0;
}

std::int64_t& size_in(Gemm& gemm, GemmDim dim) {
  switch (dim) {
    case GemmDim::m:
      return gemm.m;
    case GemmDim::n:
      return gemm.n;
    case GemmDim::k:
      break;
  }
  return gemm.k;
}

void lengthen(std::int64_t& stride, std::int64_t row) {
  if (stride != 0) stride = std::max(stride, row);
}

}  // namespace

GemmDim row_dim_of_x(GemmLayout layout) {
  return layout == GemmLayout::nn || layout == GemmLayout::nt ? GemmDim::k : GemmDim::m;
}

GemmDim row_dim_of_w(GemmLayout layout) {
  return layout == GemmLayout::nn || layout == GemmLayout::tn ? GemmDim::n : GemmDim::k;
}

std::int64_t size_of(const Gemm& gemm, GemmDim dim) {
  Gemm copy = gemm;
  return size_in(copy, dim);
}

Gemm with_size(Gemm gemm, GemmDim dim, std::int64_t size) {
  size_in(gemm, dim) = size;
  lengthen(gemm.x_stride, size_of(gemm, row_dim_of_x(gemm.layout)));
  lengthen(gemm.w_stride, size_of(gemm, row_dim_of_w(gemm.layout)));
  lengthen(gemm.out_stride, gemm.n);
  return gemm;
}

std::string_view dim_name(const Gemm& gemm, GemmDim dim) {
  static constexpr std::array<std::string_view, 3> kLayerNames{"tokens", "out_features",
                                                               "in_features"};
  static constexpr std::array<std::string_view, 3> kPlainNames{"m", "n", "k"};
  const auto index = static_cast<std::size_t>(dim);
  return gemm.weight_is_parameter ? kLayerNames[index] : kPlainNames[index];
}

std::vector<GemmDim> misaligned_row_dims(const Gemm& gemm, const Dtypes& dtypes,
                                         std::int64_t bytes) {
  std::vector<GemmDim> dims;
  const auto judge = [&](GemmDim dim, Dtype dtype) {
    const std::int64_t size = size_of(gemm, dim);
    if (size > 1 && !fills_bytes(size, dtype, bytes)) dims.push_back(dim);
  };
  judge(row_dim_of_x(gemm.layout), dtypes.input);
  judge(row_dim_of_w(gemm.layout), dtypes.weight);
  judge(GemmDim::n, dtypes.output);
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

}  // namespace rooftile
