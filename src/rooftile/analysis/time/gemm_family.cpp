// Linear layers and batched products.
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {

TimeEstimate estimate_gemm(const TimeContext& context, const Op& op) {
  const std::vector<MatrixProduct> products = matrix_products(op);
  TimeEstimate total = estimate_product(context, products.front());
  for (std::size_t i = 1; i < products.size(); ++i) {
    total = total + estimate_product(context, products[i]);
  }
  return total;
}

}  // namespace rooftile
