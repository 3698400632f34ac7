#include "rooftile/analysis/inductor_padding.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/conv_layout.h"

namespace rooftile {
namespace {

constexpr int kHopper = 90;
constexpr std::int64_t kEnormousK = 8388608;
// More nodes than this per convolution: not a convolutional network.
constexpr std::int64_t kMostNodesPerConvolution = 300;

bool is_long_bf16_sum(const MatrixProduct& product, const Device& device) {
  return product.math == Dtype::bf16 && product.k > product.m && product.k > product.n &&
         device.compute_capability < kHopper;
}

double elements_intensity(const MatrixProduct& product) {
  const double m = static_cast<double>(product.m), n = static_cast<double>(product.n);
  const double k = static_cast<double>(product.k);
  return m * n * k / (m * k + k * n + m * n);
}

}  // namespace

std::int64_t inductor_alignment(Dtype dtype) {
  if (is_16_bit_float(dtype)) return 8;
  return dtype == Dtype::fp32 || dtype == Dtype::tf32 ? 4 : 1;
}

std::int64_t inductor_padded_size(std::int64_t size, Dtype dtype) {
  return size == 1 ? 1 : round_up(size, inductor_alignment(dtype));
}

std::int64_t inductor_padded_stride(std::int64_t stride, Dtype dtype) {
  const double bytes = size_in_bytes(dtype);
  if (stride <= kInductorMinPaddedStride || bytes < 1) return stride;
  return round_up(stride, kInductorStrideBytes / static_cast<std::int64_t>(bytes));
}

bool inductor_is_compute_bound(const MatrixProduct& product, const Device& device) {
  if (is_long_bf16_sum(product, device)) return true;
  const auto ridge = device.ridge(product.math);
  return ridge && elements_intensity(product) > kInductorRidgeShare * ridge->value();
}

bool inductor_forces_padding(const MatrixProduct& product, const Device& device) {
  return is_long_bf16_sum(product, device) && product.n % 2 == 1 && product.k >= kEnormousK;
}

bool inductor_has_learned_heuristic(const MatrixProduct& product, const Device& device) {
  const std::int64_t least = std::min({product.m, product.n, product.k});
  if (device.compute_capability == 80) return least >= 512;
  return device.compute_capability == kHopper && least >= 768;
}

bool inductor_stays_channels_first(std::span<const Convolution> convolutions,
                                   std::int64_t graph_nodes, bool training) {
  const auto count = static_cast<std::int64_t>(convolutions.size());
  if (count == 0 || graph_nodes / count >= kMostNodesPerConvolution) return true;
  if (training && (std::ranges::any_of(convolutions, is_grouped) ||
                   std::ranges::any_of(convolutions, is_shrinking))) {
    return true;
  }
  return std::ranges::all_of(convolutions, is_small);
}

}  // namespace rooftile
