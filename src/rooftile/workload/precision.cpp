#include "rooftile/workload/precision.h"

#include <variant>

namespace rooftile {
namespace {

bool is_float(Dtype dtype) {
  return dtype == Dtype::fp64 || dtype == Dtype::fp32 || dtype == Dtype::tf32 ||
         dtype == Dtype::fp16 || dtype == Dtype::bf16;
}

}  // namespace

Dtype activation_dtype(Dtype asked) {
  switch (asked) {
    case Dtype::tf32:
      return Dtype::fp32;
    case Dtype::fp8:
    case Dtype::fp4:
    case Dtype::int8:
    case Dtype::int4:
      return Dtype::bf16;
    default:
      return asked;
  }
}

void run_in(Dtype dtype, Op& op) {
  if (op.phase == Phase::optimizer || std::holds_alternative<Cast>(op.body)) return;
  const Dtype operand = is_matrix_op(op) && !std::holds_alternative<Attention>(op.body)
                            ? dtype
                            : activation_dtype(dtype);
  if (is_float(op.dtypes.input)) op.dtypes.input = operand;
  if (is_float(op.dtypes.weight)) op.dtypes.weight = operand;
  if (is_float(op.dtypes.output)) {
    op.dtypes.output = dtype == Dtype::tf32 ? operand : activation_dtype(dtype);
  }
}

}  // namespace rooftile
