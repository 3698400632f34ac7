// The algorithms among which cuDNN picks; each in a file of its own.
#pragma once

#include "rooftile/analysis/gemm_form.h"
#include "rooftile/analysis/time/context.h"
#include "rooftile/analysis/time/convolution_kernel.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// What every algorithm reads.
struct ConvolutionWork {
  const Op& op;
  const Convolution& conv;
  const MatrixProduct& product;
  Phase phase;  // of the plain convolution: a transposed one runs as the other's dgrad
  Bytes bytes;  // input, weights and output once
};

ConvolutionWork convolution_work(const Op& op, const Convolution& conv,
                                 const MatrixProduct& product);

// A stride leaves out pixels of the input, so that its rows are not read in sequence.
bool skips_pixels(const ConvolutionWork& work);

// Implicit GEMM on Tensor Cores, with kernels of which convolution times are known.
TimeEstimate tensor_core_convolution(const TimeContext& context, const ConvolutionWork& work);

// CUDA cores: the cheapest of implicit GEMM and Winograd's algorithm in two forms.
TimeEstimate cuda_core_convolution(const TimeContext& context, const ConvolutionWork& work);

}  // namespace rooftile
