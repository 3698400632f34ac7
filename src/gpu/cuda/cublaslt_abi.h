// The part of cuBLASLt's C interface that is used here, as in NVIDIA's cublasLt.h and
// library_types.h, CUDA 12; abi_check.cpp compares where they are found.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rooftile::gpu::cuda::lt {

using Status = int;  // cublasStatus_t; 0 is success
using Handle = struct HandleTag*;
using MatmulDesc = struct MatmulDescTag*;
using MatrixLayout = struct MatrixLayoutTag*;
using Preference = struct PreferenceTag*;
using Stream = struct StreamTag*;

// cudaDataType
constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kR8F_E4M3 = 28;
// cublasComputeType_t
constexpr int kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FFastTf32 = 77;
// cublasOperation_t
constexpr std::int32_t kNoTranspose = 0, kTranspose = 1;
// cublasLtMatmulDescAttributes_t
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8;
// cublasLtEpilogue_t
constexpr std::uint32_t kEpilogueBias = 4;
// cublasLtMatrixLayoutAttribute_t
constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t
constexpr int kPrefWorkspace = 1, kPrefAlignA = 5, kPrefAlignB = 6, kPrefAlignC = 7,
              kPrefAlignD = 8;
// cublasLtMatmulAlgoConfigAttributes_t
constexpr int kAlgoId = 0, kAlgoTile = 1, kAlgoSplitK = 2, kAlgoSwizzle = 4, kAlgoStages = 6,
              kAlgoCluster = 8;

// cublasLtMatmulAlgo_t
struct Algo {
  std::uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algo algo;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

}  // namespace rooftile::gpu::cuda::lt
