// Attention: one fused kernel, or products with a softmax between.
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {
namespace {

// Products, and a softmax kernel that reads and writes the scores (its gradient reads two).
TimeEstimate estimate_unfused(const TimeContext& context, const Op& op, const Attention& a) {
  const double rows = to_double(a.batch) * to_double(a.heads) * to_double(a.query_len);
  const double scores = rows * to_double(a.kv_len);
  const double passes = op.phase == Phase::forward ? 2 : 3;
  TimeEstimate total =
      estimate_stream(context, passes * storage(scores, op.dtypes.input), Access::rows, rows);
  for (const MatrixProduct& product : matrix_products(op)) {
    total = estimate_product(context, product) + total;
  }
  return total;
}

}  // namespace

TimeEstimate estimate_attention(const TimeContext& context, const Op& op,
                                const Attention& attention) {
  return attention.fused ? estimate_fused_attention(context, op, attention)
                         : estimate_unfused(context, op, attention);
}

}  // namespace rooftile
