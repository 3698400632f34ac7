// Linear layers and batched products.
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {
namespace {

// A layer of 16-bit activations and fp8 weights scales its activations row by row and multiplies
// in fp8, where the GPU can: vLLM and PyTorch call it dynamic quantization.
bool quantizes_activations(const Op& op, const Device& device) {
  const Dtype in = op.dtypes.input;
  return op.phase == Phase::forward && (in == Dtype::bf16 || in == Dtype::fp16) &&
         op.dtypes.weight == Dtype::fp8 && device.has_tensor_cores(Dtype::fp8);
}

TimeEstimate estimate_quantized(const TimeContext& context, MatrixProduct product) {
  ProductTraits traits;
  traits.quantized_from_bytes = size_in_bytes(product.a.dtype);
  product.a.dtype = product.math = Dtype::fp8;
  return estimate_product(context, product, traits);
}

}  // namespace

TimeEstimate estimate_gemm(const TimeContext& context, const Op& op) {
  const std::vector<MatrixProduct> products = matrix_products(op);
  if (quantizes_activations(op, context.device)) {
    return estimate_quantized(context, products.front());
  }
  TimeEstimate total = estimate_product(context, products.front());
  for (std::size_t i = 1; i < products.size(); ++i) {
    total = total + estimate_product(context, products[i]);
  }
  return total;
}

}  // namespace rooftile
