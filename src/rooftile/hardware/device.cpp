#include "rooftile/hardware/device.h"

namespace rooftile {
namespace {

std::optional<FlopPerSecond> find(const std::map<Dtype, FlopPerSecond>& peaks, Dtype dtype) {
  const auto entry = peaks.find(dtype);
  if (entry == peaks.end()) return std::nullopt;
  return entry->second;
}

}  // namespace

std::optional<FlopPerSecond> Device::peak(Dtype dtype) const {
  if (const auto rate = find(tensor_core_peak, dtype)) return rate;
  if (const auto rate = find(cuda_core_peak, dtype)) return rate;
  // PyTorch ignores allow_tf32 before Ampere, and cuBLAS widens 16-bit operands that the GPU cannot
  // multiply.
  if (dtype == Dtype::tf32 || is_16_bit_float(dtype)) return find(cuda_core_peak, Dtype::fp32);
  return std::nullopt;
}

std::optional<FlopPerByte> Device::ridge(Dtype dtype) const {
  const std::optional<FlopPerSecond> rate = peak(dtype);
  if (!rate || !(dram_bandwidth.value() > 0.0)) return std::nullopt;
  return *rate / dram_bandwidth;
}

}  // namespace rooftile
