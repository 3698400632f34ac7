// Compares our own declarations with NVIDIA's headers, where the build found them. Nothing here
// runs: a difference is a compile error.
#if __has_include(<cuda.h>)
#include <cuda.h>

#include "gpu/cuda/driver_abi.h"
namespace rooftile::gpu::cuda {
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ==
              static_cast<int>(DeviceAttribute::multiprocessor_count));
static_assert(CU_DEVICE_ATTRIBUTE_CLOCK_RATE == static_cast<int>(DeviceAttribute::clock_rate_khz));
static_assert(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE ==
              static_cast<int>(DeviceAttribute::memory_clock_rate_khz));
static_assert(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH ==
              static_cast<int>(DeviceAttribute::memory_bus_width_bits));
static_assert(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE ==
              static_cast<int>(DeviceAttribute::l2_cache_bytes));
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ==
              static_cast<int>(DeviceAttribute::compute_capability_major));
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ==
              static_cast<int>(DeviceAttribute::compute_capability_minor));
static_assert(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR ==
              static_cast<int>(DeviceAttribute::shared_memory_per_multiprocessor_bytes));
static_assert(CU_STREAM_NON_BLOCKING == kStreamNonBlocking && CU_EVENT_DEFAULT == kEventDefault);
static_assert(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL == kCaptureThreadLocal);
static_assert(CU_GRAPH_NODE_TYPE_KERNEL == kGraphNodeKernel && CUDA_SUCCESS == 0);
static_assert(sizeof(CUdeviceptr) == sizeof(DevicePointer) && sizeof(CUuuid) == sizeof(Uuid));
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v2) == sizeof(KernelNodeParams));
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern) == offsetof(KernelNodeParams, kernel));
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes) ==
              offsetof(KernelNodeParams, shared_bytes));
}  // namespace rooftile::gpu::cuda
#endif

#if __has_include(<cublasLt.h>) && __has_include(<crt/host_defines.h>) && __has_include(<nv/target>)
#include <cublasLt.h>

#include "gpu/cuda/cublaslt_abi.h"
namespace rooftile::gpu::cuda::lt {
static_assert(CUDA_R_32F == kR32F && CUDA_R_64F == kR64F && CUDA_R_16F == kR16F);
static_assert(CUDA_R_8I == kR8I && CUDA_R_32I == kR32I && CUDA_R_16BF == kR16BF);
static_assert(CUDA_R_8F_E4M3 == kR8F_E4M3);
static_assert(CUBLAS_COMPUTE_32F == kCompute32F && CUBLAS_COMPUTE_64F == kCompute64F);
static_assert(CUBLAS_COMPUTE_32I == kCompute32I);
static_assert(CUBLAS_COMPUTE_32F_FAST_TF32 == kCompute32FFastTf32);
static_assert(CUBLAS_OP_N == kNoTranspose && CUBLAS_OP_T == kTranspose);
static_assert(CUBLASLT_MATMUL_DESC_TRANSA == kDescTransA);
static_assert(CUBLASLT_MATMUL_DESC_TRANSB == kDescTransB);
static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE == kDescEpilogue);
static_assert(CUBLASLT_MATMUL_DESC_BIAS_POINTER == kDescBiasPointer);
static_assert(CUBLASLT_EPILOGUE_BIAS == kEpilogueBias);
static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == kLayoutBatchCount);
static_assert(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == kLayoutBatchStride);
static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == kPrefWorkspace);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == kPrefAlignA);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == kPrefAlignB);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == kPrefAlignC);
static_assert(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == kPrefAlignD);
static_assert(CUBLASLT_ALGO_CONFIG_ID == kAlgoId && CUBLASLT_ALGO_CONFIG_TILE_ID == kAlgoTile);
static_assert(CUBLASLT_ALGO_CONFIG_SPLITK_NUM == kAlgoSplitK);
static_assert(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING == kAlgoSwizzle);
static_assert(CUBLASLT_ALGO_CONFIG_STAGES_ID == kAlgoStages);
static_assert(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID == kAlgoCluster);
static_assert(CUBLASLT_MATMUL_TILE_256x32 == 35 && CUBLASLT_MATMUL_TILE_128x256 == 23);
static_assert(CUBLAS_STATUS_SUCCESS == 0 && sizeof(cublasLtMatmulAlgo_t) == sizeof(Algo));
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == sizeof(HeuristicResult));
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) ==
              offsetof(HeuristicResult, waves));
}  // namespace rooftile::gpu::cuda::lt
#endif

#if __has_include(<cudnn.h>) && __has_include(<crt/host_defines.h>)
#include <cudnn.h>

#include "gpu/cuda/cudnn_abi.h"
namespace rooftile::gpu::cuda::dnn {
static_assert(CUDNN_DATA_FLOAT == kFloat && CUDNN_DATA_HALF == kHalf);
static_assert(CUDNN_DATA_BFLOAT16 == kBfloat16 && CUDNN_STATUS_SUCCESS == 0);
static_assert(CUDNN_TENSOR_NCHW == kNchw && CUDNN_TENSOR_NHWC == kNhwc);
static_assert(CUDNN_CROSS_CORRELATION == kCrossCorrelation);
static_assert(CUDNN_DEFAULT_MATH == kDefaultMath && CUDNN_TENSOR_OP_MATH == kTensorOpMath);
// The structures of the three phases are marked as deprecated, but they are the interface.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static_assert(sizeof(cudnnConvolutionFwdAlgoPerf_t) == sizeof(AlgoPerf));
static_assert(sizeof(cudnnConvolutionBwdDataAlgoPerf_t) == sizeof(AlgoPerf));
static_assert(sizeof(cudnnConvolutionBwdFilterAlgoPerf_t) == sizeof(AlgoPerf));
static_assert(offsetof(cudnnConvolutionFwdAlgoPerf_t, memory) == offsetof(AlgoPerf, memory));
static_assert(offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType) == offsetof(AlgoPerf, math_type));
#pragma GCC diagnostic pop
}  // namespace rooftile::gpu::cuda::dnn
#endif

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace rooftile::gpu::cuda {
static_assert(NVML_SUCCESS == 0 && NVML_CLOCK_SM == 1 && NVML_CLOCK_MEM == 2);
static_assert(NVML_TEMPERATURE_GPU == 0);
}  // namespace rooftile::gpu::cuda
#endif
