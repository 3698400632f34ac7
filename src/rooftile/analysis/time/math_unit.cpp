#include "rooftile/analysis/time/math_unit.h"

#include <span>

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

// dp4a multiplies and adds four pairs of bytes in the place of one fp32 pair, from compute
// capability 6.1 on (CUDA C++ Programming Guide); P4's data sheet: 22 TOPS in int8, 5.5 TFLOPS in
// fp32.
constexpr int kDp4aCapability = 61;
constexpr double kDp4aOverFp32 = 4;

// Compute capabilities whose Tensor Cores multiply int4: Turing to Ada (CUDA C++ Programming Guide,
// "Compute Capabilities").
constexpr int kFirstInt4 = 75, kLastInt4 = 89;

std::optional<FlopPerSecond> cuda_core_rate(const Device& device, Dtype dtype) {
  const auto listed = device.cuda_core_peak.find(dtype);
  if (listed != device.cuda_core_peak.end()) return listed->second;
  const auto fp32 = device.cuda_core_peak.find(Dtype::fp32);
  const bool has_dp4a = device.compute_capability >= kDp4aCapability;
  if (dtype != Dtype::int8 || !has_dp4a || fp32 == device.cuda_core_peak.end()) return std::nullopt;
  return fp32->second * kDp4aOverFp32;
}

bool multiplies(const Device& device, Dtype dtype) {
  return device.has_tensor_cores(dtype) || cuda_core_rate(device, dtype);
}

// In the order to try.
std::span<const Dtype> substitutes(Dtype dtype) {
  static constexpr Dtype kFloats[] = {Dtype::bf16, Dtype::fp16, Dtype::fp32};
  static constexpr Dtype kFromFp4[] = {Dtype::fp8, Dtype::bf16, Dtype::fp16, Dtype::fp32};
  static constexpr Dtype kFromInt4[] = {Dtype::int8, Dtype::bf16, Dtype::fp16, Dtype::fp32};
  switch (dtype) {
    case Dtype::fp4:
      return kFromFp4;
    case Dtype::int4:
      return kFromInt4;
    case Dtype::fp8:
    case Dtype::int8:
    case Dtype::tf32:
    case Dtype::bf16:
    case Dtype::fp16:
      return kFloats;
    default:
      return {};
  }
}

}  // namespace

MathUnit math_unit(const Device& device, Dtype dtype) {
  for (std::optional<Dtype> tried = dtype; tried; tried = wider(*tried)) {
    const auto tensor = device.tensor_core_peak.find(*tried);
    if (tensor != device.tensor_core_peak.end()) return {true, *tried, tensor->second};
    if (const auto rate = cuda_core_rate(device, *tried)) return {false, *tried, *rate};
  }
  return {false, Dtype::fp32, guessed_fp32_peak(device)};
}

MathSupport math_support(const Device& device, Dtype dtype) {
  if (device.has_tensor_cores(dtype)) return MathSupport::tensor_cores;
  if (dtype == Dtype::fp8 || dtype == Dtype::fp4) return MathSupport::refused;
  const int capability = device.compute_capability;
  if (dtype == Dtype::int4 && (capability < kFirstInt4 || capability > kLastInt4)) {
    return MathSupport::refused;
  }
  return cuda_core_rate(device, dtype) ? MathSupport::cuda_cores : MathSupport::widened;
}

std::optional<Dtype> best_supported(const Device& device, Dtype wanted) {
  if (multiplies(device, wanted)) return wanted;
  const std::span<const Dtype> others = substitutes(wanted);
  for (const Dtype other : others) {
    if (device.has_tensor_cores(other)) return other;
  }
  for (const Dtype other : others) {
    if (multiplies(device, other)) return other;
  }
  return std::nullopt;
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
