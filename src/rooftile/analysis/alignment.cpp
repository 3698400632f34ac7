#include "rooftile/analysis/alignment.h"

#include <algorithm>

namespace rooftile {
namespace {

constexpr std::int64_t kFullBits = 128;

// Largest power of two that divides `value`, at most kFullBits; all of them divide 0.
std::int64_t power_of_two_divisor(std::int64_t value) {
  const std::int64_t capped = value | kFullBits;
  return capped & -capped;
}

}  // namespace

double aligned_bytes(const MatrixOperand& operand) {
  const std::int64_t bits = info(operand.dtype).bits;
  const std::int64_t aligned_bits = std::min({power_of_two_divisor(operand.contiguous * bits),
                                              power_of_two_divisor(operand.leading * bits),
                                              power_of_two_divisor(operand.offset * bits)});
  return static_cast<double>(aligned_bits) / 8.0;
}

double Alignment::worst() const { return std::min({a_bytes, b_bytes, out_bytes}); }

Alignment alignment_of(const MatrixProduct& product) {
  return {aligned_bytes(product.a), aligned_bytes(product.b), aligned_bytes(product.out)};
}

std::int64_t alignment_elements(Dtype dtype) { return kFullBits / info(dtype).bits; }

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace rooftile
