// The part of cuDNN's C interface that is used here, as in NVIDIA's cudnn_graph.h, cudnn_ops.h and
// cudnn_cnn.h, versions 8 and 9; abi_check.cpp compares where they are found.
#pragma once

#include <cstddef>

namespace rooftile::gpu::cuda::dnn {

using Status = int;  // cudnnStatus_t; 0 is success
using Handle = struct HandleTag*;
using TensorDesc = struct TensorDescTag*;
using FilterDesc = struct FilterDescTag*;
using ConvDesc = struct ConvDescTag*;
using Stream = struct StreamTag*;

// cudnnDataType_t
constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
// cudnnTensorFormat_t
constexpr int kNchw = 0, kNhwc = 1;
// cudnnConvolutionMode_t
constexpr int kCrossCorrelation = 1;
// cudnnMathType_t. The default allows TF32 for fp32 from Ampere on, as PyTorch does.
constexpr int kDefaultMath = 0, kTensorOpMath = 1;

// cudnnConvolutionFwdAlgoPerf_t, and those of the gradients: they differ only in the enumeration
// of the algorithm.
struct AlgoPerf {
  int algo;
  Status status;
  float time_ms;
  std::size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};

}  // namespace rooftile::gpu::cuda::dnn
