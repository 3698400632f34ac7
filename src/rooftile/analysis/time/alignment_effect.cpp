#include "rooftile/analysis/time/alignment_effect.h"

#include <algorithm>

#include "rooftile/analysis/alignment.h"

namespace rooftile {
namespace {

const std::vector<AlignmentRow>& rows_for(const AlignmentConstants& constants, Dtype dtype) {
  if (dtype == Dtype::tf32) return constants.tf32;
  return size_in_bytes(dtype) <= 1 ? constants.eight_bit : constants.sixteen_bit;
}

// TF32 kernels differ for rows of 16 and of 32 bytes.
double bytes_of(const MatrixOperand& operand, Dtype unit) {
  const double aligned = aligned_bytes(operand);
  if (unit != Dtype::tf32 || aligned < 16) return aligned;
  constexpr std::int64_t kElements = 8;  // of four bytes
  const bool twice = operand.contiguous % kElements == 0 && operand.leading % kElements == 0 &&
                     operand.offset % kElements == 0;
  return twice ? 32 : aligned;
}

}  // namespace

Range<double> alignment_factor(const AlignmentConstants& constants, const MatrixProduct& product,
                               const MathUnit& unit) {
  constexpr Range<double> kNone{1, 1, 1};
  const bool minds = unit.tensor_cores && unit.dtype != Dtype::fp64 && product.math != Dtype::fp8;
  if (!minds) return kNone;
  if (product.m == 1 || product.n == 1) return kNone;  // matrix times vector: another kernel
  const double operands =
      std::min(bytes_of(product.a, unit.dtype), bytes_of(product.b, unit.dtype));
  const double out = bytes_of(product.out, unit.dtype);
  for (const AlignmentRow& row : rows_for(constants, unit.dtype)) {
    if (operands >= row.operand_bytes && out >= row.out_bytes) return row.factor;
  }
  return kNone;
}

}  // namespace rooftile
