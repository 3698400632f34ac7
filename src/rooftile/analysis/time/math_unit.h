// Which unit of a GPU multiplies a precision, and how fast.
#pragma once

#include <optional>

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

struct MathUnit {
  bool tensor_cores = false;
  Dtype dtype = Dtype::fp32;  // that the unit multiplies; another than asked for where unsupported
  FlopPerSecond peak;
};

// Tensor Cores where they take the precision. A precision the GPU lacks is timed in the next wider
// one it has: fp4 as fp8, fp8 as fp16, bf16 and tf32 as fp32, int4 as int8, integers else as fp32.
MathUnit math_unit(const Device& device, Dtype dtype);

// What PyTorch makes of a GEMM in this precision on this GPU.
enum class MathSupport {
  tensor_cores,
  cuda_cores,  // multiplied as it is, on CUDA cores
  widened,     // stored as it is, multiplied in fp32 on CUDA cores: bf16 before Ampere
  refused,     // torch._scaled_mm raises: fp8 before compute capability 8.9, fp4 before 10.0; no
               // library has products of int4 where the GPU has no unit for them
};
MathSupport math_support(const Device& device, Dtype dtype);

// The precision to run a model in on this GPU when `wanted` is what its author chose: `wanted`
// where the GPU multiplies it as it is, else the nearest one it does, Tensor Cores first: fp16 for
// bf16 on Volta and Turing, bf16 for fp8 on Ampere, fp8 for fp4 on Hopper. Empty where there is
// none.
std::optional<Dtype> best_supported(const Device& device, Dtype wanted);

// What cuDNN multiplies a convolution or recurrent layer in: TF32 for fp32 where the GPU has it,
// which PyTorch allows by default (torch.backends.cudnn.allow_tf32), unlike for cuBLAS products.
Dtype cudnn_math(const Device& device, Dtype dtype);

// An FP8 product is refused by cuBLAS unless k and both row strides are multiples of 16 elements;
// estimates are those of the padded product.
bool must_pad_fp8(const MatrixProduct& product);

}  // namespace rooftile
