// Compares our own declarations with NVIDIA's headers, where the build found them. Nothing here
// runs: a difference is a compile error.
#include <type_traits>

#include "gpu/cuda/compiler.h"
#include "gpu/cuda/cublaslt.h"
#include "gpu/cuda/cudnn.h"
#include "gpu/cuda/nvml_monitor.h"

namespace rooftile::gpu::cuda {
namespace {

// Parameters of equal count, size and kind (pointer or not); handles have types of their own.
template <class Ours, class Theirs>
[[maybe_unused]] constexpr bool kSameShape = false;
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) constexpr bool kSameShape<R (*)(A...), S (*)(B...)> =
    sizeof(R) == sizeof(S) &&
    ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);

}  // namespace
}  // namespace rooftile::gpu::cuda

// NOLINTNEXTLINE: names have to be spelled once for both sides.
#define ROOFTILE_SAME(ours, theirs) static_assert(kSameShape<decltype(ours), decltype(&(theirs))>)

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
ROOFTILE_SAME(DriverFunctions::init, cuInit);
ROOFTILE_SAME(DriverFunctions::driver_version, cuDriverGetVersion);
ROOFTILE_SAME(DriverFunctions::device_count, cuDeviceGetCount);
ROOFTILE_SAME(DriverFunctions::device_get, cuDeviceGet);
ROOFTILE_SAME(DriverFunctions::device_name, cuDeviceGetName);
ROOFTILE_SAME(DriverFunctions::device_uuid, cuDeviceGetUuid);
ROOFTILE_SAME(DriverFunctions::device_memory, cuDeviceTotalMem);
ROOFTILE_SAME(DriverFunctions::device_attribute, cuDeviceGetAttribute);
ROOFTILE_SAME(DriverFunctions::context_retain, cuDevicePrimaryCtxRetain);
ROOFTILE_SAME(DriverFunctions::context_release, cuDevicePrimaryCtxRelease);
ROOFTILE_SAME(DriverFunctions::context_set, cuCtxSetCurrent);
ROOFTILE_SAME(DriverFunctions::error_name, cuGetErrorName);
ROOFTILE_SAME(DriverFunctions::memory_allocate, cuMemAlloc);
ROOFTILE_SAME(DriverFunctions::memory_free, cuMemFree);
ROOFTILE_SAME(DriverFunctions::memory_info, cuMemGetInfo);
ROOFTILE_SAME(DriverFunctions::stream_create, cuStreamCreate);
ROOFTILE_SAME(DriverFunctions::stream_destroy, cuStreamDestroy);
ROOFTILE_SAME(DriverFunctions::stream_synchronize, cuStreamSynchronize);
ROOFTILE_SAME(DriverFunctions::capture_begin, cuStreamBeginCapture);
ROOFTILE_SAME(DriverFunctions::capture_end, cuStreamEndCapture);
ROOFTILE_SAME(DriverFunctions::graph_instantiate, cuGraphInstantiateWithFlags);
ROOFTILE_SAME(DriverFunctions::graph_launch, cuGraphLaunch);
ROOFTILE_SAME(DriverFunctions::graph_destroy, cuGraphDestroy);
ROOFTILE_SAME(DriverFunctions::graph_exec_destroy, cuGraphExecDestroy);
ROOFTILE_SAME(DriverFunctions::graph_nodes, cuGraphGetNodes);
ROOFTILE_SAME(DriverFunctions::graph_node_type, cuGraphNodeGetType);
ROOFTILE_SAME(DriverFunctions::graph_kernel_params, cuGraphKernelNodeGetParams);
ROOFTILE_SAME(DriverFunctions::function_name, cuFuncGetName);
ROOFTILE_SAME(DriverFunctions::kernel_name, cuKernelGetName);
ROOFTILE_SAME(DriverFunctions::event_create, cuEventCreate);
ROOFTILE_SAME(DriverFunctions::event_destroy, cuEventDestroy);
ROOFTILE_SAME(DriverFunctions::event_record, cuEventRecord);
ROOFTILE_SAME(DriverFunctions::event_synchronize, cuEventSynchronize);
ROOFTILE_SAME(DriverFunctions::event_elapsed_ms, cuEventElapsedTime);
ROOFTILE_SAME(DriverFunctions::module_load, cuModuleLoadData);
ROOFTILE_SAME(DriverFunctions::module_unload, cuModuleUnload);
ROOFTILE_SAME(DriverFunctions::module_function, cuModuleGetFunction);
ROOFTILE_SAME(DriverFunctions::launch, cuLaunchKernel);
}  // namespace rooftile::gpu::cuda
#endif

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

namespace rooftile::gpu::cuda {
template <>
struct AbiCheck<Compiler> {
  ROOFTILE_SAME(Compiler::version_, nvrtcVersion);
  ROOFTILE_SAME(Compiler::create_, nvrtcCreateProgram);
  ROOFTILE_SAME(Compiler::compile_, nvrtcCompileProgram);
  ROOFTILE_SAME(Compiler::destroy_, nvrtcDestroyProgram);
  ROOFTILE_SAME(Compiler::log_size_, nvrtcGetProgramLogSize);
  ROOFTILE_SAME(Compiler::log_, nvrtcGetProgramLog);
  ROOFTILE_SAME(Compiler::cubin_size_, nvrtcGetCUBINSize);
  ROOFTILE_SAME(Compiler::cubin_, nvrtcGetCUBIN);
};
static_assert(NVRTC_SUCCESS == 0);
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
namespace rooftile::gpu::cuda {
template <>
struct AbiCheck<CublasLt> {
  ROOFTILE_SAME(CublasLt::get_version, cublasLtGetVersion);
  ROOFTILE_SAME(CublasLt::create, cublasLtCreate);
  ROOFTILE_SAME(CublasLt::destroy, cublasLtDestroy);
  ROOFTILE_SAME(CublasLt::desc_create, cublasLtMatmulDescCreate);
  ROOFTILE_SAME(CublasLt::desc_destroy, cublasLtMatmulDescDestroy);
  ROOFTILE_SAME(CublasLt::desc_set, cublasLtMatmulDescSetAttribute);
  ROOFTILE_SAME(CublasLt::layout_create, cublasLtMatrixLayoutCreate);
  ROOFTILE_SAME(CublasLt::layout_destroy, cublasLtMatrixLayoutDestroy);
  ROOFTILE_SAME(CublasLt::layout_set, cublasLtMatrixLayoutSetAttribute);
  ROOFTILE_SAME(CublasLt::pref_create, cublasLtMatmulPreferenceCreate);
  ROOFTILE_SAME(CublasLt::pref_destroy, cublasLtMatmulPreferenceDestroy);
  ROOFTILE_SAME(CublasLt::pref_set, cublasLtMatmulPreferenceSetAttribute);
  ROOFTILE_SAME(CublasLt::heuristic, cublasLtMatmulAlgoGetHeuristic);
  ROOFTILE_SAME(CublasLt::matmul, cublasLtMatmul);
  ROOFTILE_SAME(CublasLt::algo_get, cublasLtMatmulAlgoConfigGetAttribute);
};
}  // namespace rooftile::gpu::cuda
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
}  // namespace rooftile::gpu::cuda::dnn
namespace rooftile::gpu::cuda {
template <>
struct AbiCheck<Cudnn> {
  ROOFTILE_SAME(Cudnn::get_version, cudnnGetVersion);
  ROOFTILE_SAME(Cudnn::create, cudnnCreate);
  ROOFTILE_SAME(Cudnn::destroy, cudnnDestroy);
  ROOFTILE_SAME(Cudnn::set_stream, cudnnSetStream);
  ROOFTILE_SAME(Cudnn::tensor_create, cudnnCreateTensorDescriptor);
  ROOFTILE_SAME(Cudnn::tensor_destroy, cudnnDestroyTensorDescriptor);
  ROOFTILE_SAME(Cudnn::tensor_set, cudnnSetTensorNdDescriptor);
  ROOFTILE_SAME(Cudnn::filter_create, cudnnCreateFilterDescriptor);
  ROOFTILE_SAME(Cudnn::filter_destroy, cudnnDestroyFilterDescriptor);
  ROOFTILE_SAME(Cudnn::filter_set, cudnnSetFilterNdDescriptor);
  ROOFTILE_SAME(Cudnn::conv_create, cudnnCreateConvolutionDescriptor);
  ROOFTILE_SAME(Cudnn::conv_destroy, cudnnDestroyConvolutionDescriptor);
  ROOFTILE_SAME(Cudnn::conv_set, cudnnSetConvolutionNdDescriptor);
  ROOFTILE_SAME(Cudnn::conv_groups, cudnnSetConvolutionGroupCount);
  ROOFTILE_SAME(Cudnn::conv_math, cudnnSetConvolutionMathType);
  ROOFTILE_SAME(Cudnn::forward_heuristic, cudnnGetConvolutionForwardAlgorithm_v7);
  ROOFTILE_SAME(Cudnn::dgrad_heuristic, cudnnGetConvolutionBackwardDataAlgorithm_v7);
  ROOFTILE_SAME(Cudnn::wgrad_heuristic, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  ROOFTILE_SAME(Cudnn::forward, cudnnConvolutionForward);
  ROOFTILE_SAME(Cudnn::dgrad, cudnnConvolutionBackwardData);
  ROOFTILE_SAME(Cudnn::wgrad, cudnnConvolutionBackwardFilter);
};
}  // namespace rooftile::gpu::cuda
#pragma GCC diagnostic pop
#endif

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace rooftile::gpu::cuda {
static_assert(NVML_SUCCESS == 0 && NVML_CLOCK_SM == 1 && NVML_CLOCK_MEM == 2);
static_assert(NVML_TEMPERATURE_GPU == 0);
template <>
struct AbiCheck<NvmlMonitor> {
  ROOFTILE_SAME(NvmlMonitor::init_, nvmlInit_v2);
  ROOFTILE_SAME(NvmlMonitor::shutdown_, nvmlShutdown);
  ROOFTILE_SAME(NvmlMonitor::by_uuid_, nvmlDeviceGetHandleByUUID);
  ROOFTILE_SAME(NvmlMonitor::clock_, nvmlDeviceGetClockInfo);
  ROOFTILE_SAME(NvmlMonitor::power_, nvmlDeviceGetPowerUsage);
  ROOFTILE_SAME(NvmlMonitor::power_limit_, nvmlDeviceGetEnforcedPowerLimit);
  ROOFTILE_SAME(NvmlMonitor::temperature_, nvmlDeviceGetTemperature);
  ROOFTILE_SAME(NvmlMonitor::throttle_, nvmlDeviceGetCurrentClocksThrottleReasons);
  ROOFTILE_SAME(NvmlMonitor::driver_version_, nvmlSystemGetDriverVersion);
};
}  // namespace rooftile::gpu::cuda
#endif
