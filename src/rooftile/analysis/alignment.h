// Which operands of a product meet cuBLAS's 16-byte conditions for the fastest Tensor Core
// kernels, which dimension is to blame, and the class of kernel that is left.
#pragma once

#include <string_view>
#include <vector>

#include "rooftile/analysis/gemm_form.h"

namespace rooftile {

// Largest power of two, at most 16, that divides the operand's row length, row stride and offset,
// all in bytes; 0.5 for an odd number of 4-bit elements.
double aligned_bytes(const MatrixOperand& operand);

struct Alignment {
  double a_bytes = 16, b_bytes = 16, out_bytes = 16;

  bool operator==(const Alignment&) const = default;
  // All nine conditions of the cuBLAS documentation, "Tensor Core Usage".
  bool full() const { return a_bytes >= 16 && b_bytes >= 16 && out_bytes >= 16; }
  double worst() const;
};

Alignment alignment_of(const MatrixProduct& product);

// Elements that make 16 bytes: 8 for fp16 and bf16, 4 for tf32, 16 for fp8 and int8.
std::int64_t alignment_elements(Dtype dtype);
// The next multiple of `step` at or above `value`.
std::int64_t round_up(std::int64_t value, std::int64_t step);

}  // namespace rooftile
