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

TimeEstimate estimate_gemm(const TimeContext& context, const Op& op, const Gemm& gemm) {
  if (has_two_gradients(op, gemm)) {
    const std::vector<MatrixProduct> gradients = matrix_products(op);
    return estimate_product(context, gradients[0]) + estimate_product(context, gradients[1]);
  }
  const MatrixProduct product = gemm_product(op, gemm);
  return quantizes_activations(op, context.device) ? estimate_quantized(context, product)
                                                   : estimate_product(context, product);
}

}  // namespace rooftile
