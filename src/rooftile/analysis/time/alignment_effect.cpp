#include "rooftile/analysis/time/alignment_effect.h"

#include <algorithm>

#include "rooftile/analysis/alignment.h"

namespace rooftile {
namespace {

const std::vector<AlignmentRow>& rows_for(const AlignmentConstants& constants, Dtype dtype) {
  if (dtype == Dtype::tf32) return constants.tf32;
  return size_in_bytes(dtype) <= 1 ? constants.eight_bit : constants.sixteen_bit;
}

}  // namespace

Range<double> alignment_factor(const AlignmentConstants& constants, const MatrixProduct& product,
                               const MathUnit& unit) {
  constexpr Range<double> kNone{1, 1, 1};
  const bool minds = unit.tensor_cores && unit.dtype != Dtype::fp64 && product.math != Dtype::fp8;
  if (!minds) return kNone;
  if (product.m == 1 || product.n == 1) return kNone;  // matrix times vector: another kernel
  const Alignment alignment = alignment_of(product);
  const double operands = std::min(alignment.a_bytes, alignment.b_bytes);
  for (const AlignmentRow& row : rows_for(constants, unit.dtype)) {
    if (operands >= row.operand_bytes && alignment.out_bytes >= row.out_bytes) return row.factor;
  }
  return kNone;
}

}  // namespace rooftile
