// Facts about a convolution that several rules ask for.
#pragma once

#include <algorithm>

#include "rooftile/analysis/analysis.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

inline bool is_convolution(const Op& op) { return std::holds_alternative<Convolution>(op.body); }

inline std::int64_t input_channels_per_group(const Convolution& conv) {
  return conv.c / conv.groups;
}
inline std::int64_t output_channels_per_group(const Convolution& conv) {
  return conv.k / conv.groups;
}

// One input channel a group: no products of matrices are left, and Tensor Cores do not help.
inline bool is_depthwise(const Convolution& conv) {
  return conv.groups > 1 && conv.groups == conv.c;
}

inline bool is_strided(const Convolution& conv) {
  return std::any_of(conv.stride.begin(), conv.stride.end(), [](auto size) { return size > 1; });
}
inline bool is_dilated(const Convolution& conv) {
  return std::any_of(conv.dilation.begin(), conv.dilation.end(),
                     [](auto size) { return size > 1; });
}
inline bool is_pointwise(const Convolution& conv) {
  return std::all_of(conv.kernel.begin(), conv.kernel.end(), [](auto size) { return size == 1; });
}

// True when the operation's products run on this GPU's Tensor Cores.
inline bool on_tensor_cores(const OpAnalysis& op, const Device& device) {
  return !op.products.empty() && device.has_tensor_cores(op.products.front().math);
}

// Intensity of the operation over half the GPU's ridge, the cut of PyTorch Inductor's pad_mm. A
// convolution reads its input once, not as the matrix of its implicit product, so its own traffic
// counts.
inline bool is_math_bound(const OpAnalysis& op, const Device& device) {
  if (op.products.empty()) return false;
  const auto ridge = device.ridge(op.products.front().math);
  return ridge && op.cost.intensity() > *ridge * 0.5;
}

}  // namespace rooftile
