// Which unit of a GPU multiplies a precision, and how fast.
#pragma once

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

struct MathUnit {
  bool tensor_cores = false;
  Dtype dtype = Dtype::fp32;  // that the unit multiplies; another than asked for where unsupported
  FlopPerSecond peak;
};

// Tensor Cores where they take the precision. A precision the GPU lacks runs in the next wider one
// it has, as libraries do: fp4 as fp8, fp8 as fp16, bf16 and tf32 as fp32, int4 as int8, integers
// else as fp32.
MathUnit math_unit(const Device& device, Dtype dtype);

// What cuDNN multiplies a convolution or recurrent layer in: TF32 for fp32 where the GPU has it,
// which PyTorch allows by default (torch.backends.cudnn.allow_tf32), unlike for cuBLAS products.
Dtype cudnn_math(const Device& device, Dtype dtype);

// An FP8 product is refused by cuBLAS unless k and both row strides are multiples of 16 elements;
// estimates are those of the padded product.
bool must_pad_fp8(const MatrixProduct& product);

}  // namespace rooftile
