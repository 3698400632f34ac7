#include "rooftile/analysis/time/math_unit.h"

#include "rooftile/analysis/alignment.h"

namespace rooftile {
namespace {

std::optional<Dtype> wider(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp4:
      return Dtype::fp8;
    case Dtype::fp8:
      return Dtype::fp16;
    case Dtype::int4:
      return Dtype::int8;
    case Dtype::fp32:
      return std::nullopt;
    default:
      return Dtype::fp32;
  }
}

// FP32 lanes of every SM since Pascal: 64 or 128; the smaller is the safe guess.
FlopPerSecond guessed_fp32_peak(const Device& device) {
  constexpr double kLanes = 64;
  return FlopPerSecond(2 * kLanes * std::max(device.sms, 1) * device.boost_clock.value());
}

}  // namespace

MathUnit math_unit(const Device& device, Dtype dtype) {
  for (std::optional<Dtype> tried = dtype; tried; tried = wider(*tried)) {
    const auto tensor = device.tensor_core_peak.find(*tried);
    if (tensor != device.tensor_core_peak.end()) return {true, *tried, tensor->second};
    const auto cuda = device.cuda_core_peak.find(*tried);
    if (cuda != device.cuda_core_peak.end()) return {false, *tried, cuda->second};
  }
  return {false, Dtype::fp32, guessed_fp32_peak(device)};
}

Dtype cudnn_math(const Device& device, Dtype dtype) {
  return dtype == Dtype::fp32 && device.has_tensor_cores(Dtype::tf32) ? Dtype::tf32 : dtype;
}

bool must_pad_fp8(const MatrixProduct& product) {
  if (product.math != Dtype::fp8) return false;
  const Alignment alignment = alignment_of(product);
  return product.k % alignment_elements(Dtype::fp8) != 0 || alignment.a_bytes < 16 ||
         alignment.b_bytes < 16;
}

}  // namespace rooftile
