// A stand-in for NVIDIA's libraries on machines without a GPU: it keeps no data and runs nothing,
// but refuses calls whose arguments do not fit together. Built once, found under every name that
// src/gpu opens.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gpu/cuda/cublaslt_abi.h"
#include "gpu/cuda/cudnn_abi.h"
#include "gpu/cuda/driver_abi.h"

namespace {

using namespace rooftile::gpu::cuda;

constexpr int kInvalid = 1;  // CUDA_ERROR_INVALID_VALUE, and no success anywhere else

int live_allocations = 0, live_descriptors = 0, captured_nodes = 0;
bool capturing = false;
DevicePointer next_address = 4096;

template <class T>
T* any_handle() {
  static char storage = 0;
  return reinterpret_cast<T*>(&storage);
}

int launch_one() {
  if (capturing) ++captured_nodes;
  return 0;
}

struct Matrix {
  int type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, stride = 0;
  std::int32_t count = 1;
};

struct Operation {
  std::int32_t transpose_a = 0, transpose_b = 0;
  std::uint32_t epilogue = 0;
  DevicePointer bias = 0;
};

bool has_room(const Matrix& m) {
  return m.count == 1 || m.stride >= m.leading * static_cast<std::int64_t>(m.columns);
}

// Column-major c = op(a)·op(b).
bool fits(const Operation& op, const Matrix& a, const Matrix& b, const Matrix& c) {
  const std::uint64_t m = op.transpose_a ? a.columns : a.rows,
                      k = op.transpose_a ? a.rows : a.columns;
  const std::uint64_t n = op.transpose_b ? b.rows : b.columns,
                      k_of_b = op.transpose_b ? b.columns : b.rows;
  return k == k_of_b && m == c.rows && n == c.columns && a.count == b.count && a.count == c.count &&
         has_room(a) && has_room(b) && has_room(c);
}

using Sizes = std::vector<int>;

struct Tensor {
  Sizes dims;
};

struct Conv {
  Sizes pad, stride, dilation;
  int groups = 1;
};

bool fits(const Tensor& x, const Tensor& w, const Conv& conv, const Tensor& y) {
  if (x.dims.size() != w.dims.size() || x.dims.size() != y.dims.size()) return false;
  bool same =
      x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && w.dims[1] * conv.groups == x.dims[1];
  for (std::size_t i = 2; i < x.dims.size(); ++i) {
    const int reach = conv.dilation[i - 2] * (w.dims[i] - 1) + 1;
    same = same && y.dims[i] == (x.dims[i] + 2 * conv.pad[i - 2] - reach) / conv.stride[i - 2] + 1;
  }
  return same;
}

template <class T>
int make(void** made) {
  *made = new T;
  ++live_descriptors;
  return 0;
}

template <class T>
int discard(void* made) {
  delete static_cast<T*>(made);
  --live_descriptors;
  return 0;
}

int answer(int* count, dnn::AlgoPerf* found) {
  *found = {};
  found->algo = 1;
  found->memory = 1 << 16;
  found->math_type = dnn::kTensorOpMath;
  *count = 1;
  return 0;
}

int heuristic(const void* x, const void* w, const void* conv, const void* y, int* count,
              dnn::AlgoPerf* found) {
  const bool fit = fits(*static_cast<const Tensor*>(x), *static_cast<const Tensor*>(w),
                        *static_cast<const Conv*>(conv), *static_cast<const Tensor*>(y));
  return fit ? answer(count, found) : kInvalid;
}

template <class T>
int set(T& field, const void* value, std::size_t size) {
  if (size != sizeof(T)) return kInvalid;
  std::memcpy(&field, value, size);
  return 0;
}

}  // namespace

extern "C" {

// For tests: what has not been given back.
int rooftile_fake_live() { return live_allocations + live_descriptors; }

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 12080, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetName(char* name, int size, int) {
  return std::snprintf(name, static_cast<std::size_t>(size), "NVIDIA L40S"), 0;
}
int cuDeviceGetUuid(Uuid* uuid, int) { return std::memset(uuid, 7, sizeof(*uuid)), 0; }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = 48ULL << 30, 0; }
int cuDeviceGetAttribute(int* value, DeviceAttribute which, int) {
  using enum DeviceAttribute;
  *value = which == multiprocessor_count       ? 142
           : which == clock_rate_khz           ? 2520000
           : which == memory_clock_rate_khz    ? 9001000
           : which == memory_bus_width_bits    ? 384
           : which == l2_cache_bytes           ? 100663296
           : which == compute_capability_major ? 8
           : which == compute_capability_minor ? 9
                                               : 102400;
  return 0;
}
int cuDevicePrimaryCtxRetain(ContextHandle* made, int) {
  return *made = any_handle<ContextTag>(), 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(ContextHandle) { return 0; }
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_FAKE", 0; }
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, kInvalid; }
int cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  *pointer = next_address;
  next_address += (bytes + 511) / 256 * 256;
  ++live_allocations;
  return 0;
}
int cuMemFree_v2(DevicePointer) { return --live_allocations, 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = 40ULL << 30;
  *total = 48ULL << 30;
  return 0;
}
int cuStreamCreate(StreamHandle* made, unsigned) { return *made = any_handle<StreamTag>(), 0; }
int cuStreamDestroy_v2(StreamHandle) { return 0; }
int cuStreamSynchronize(StreamHandle) { return capturing ? kInvalid : 0; }
int cuStreamBeginCapture_v2(StreamHandle, int) {
  capturing = true;
  captured_nodes = 0;
  return 0;
}
int cuStreamEndCapture(StreamHandle, GraphHandle* graph) {
  capturing = false;
  *graph = any_handle<GraphTag>();
  return 0;
}
int cuGraphInstantiateWithFlags(GraphExecHandle* made, GraphHandle, unsigned long long) {
  *made = any_handle<GraphExecTag>();
  return 0;
}
int cuGraphLaunch(GraphExecHandle, StreamHandle) { return 0; }
int cuGraphDestroy(GraphHandle) { return 0; }
int cuGraphExecDestroy(GraphExecHandle) { return 0; }
int cuGraphGetNodes(GraphHandle, GraphNodeHandle* nodes, std::size_t* count) {
  if (nodes == nullptr) return *count = static_cast<std::size_t>(captured_nodes), 0;
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = any_handle<GraphNodeTag>();
  return 0;
}
int cuGraphNodeGetType(GraphNodeHandle, int* type) { return *type = kGraphNodeKernel, 0; }
int cuGraphKernelNodeGetParams_v2(GraphNodeHandle, KernelNodeParams* parameters) {
  *parameters = {};
  parameters->function = any_handle<FunctionTag>();
  parameters->grid[0] = parameters->grid[1] = parameters->grid[2] = 1;
  parameters->block[0] = 128;
  parameters->block[1] = parameters->block[2] = 1;
  return 0;
}
int cuFuncGetName(const char** name, FunctionHandle) { return *name = "fake_kernel", 0; }
int cuKernelGetName(const char** name, KernelHandle) { return *name = "fake_kernel", 0; }
int cuEventCreate(EventHandle* made, unsigned) { return *made = any_handle<EventTag>(), 0; }
int cuEventDestroy_v2(EventHandle) { return 0; }
int cuEventRecord(EventHandle, StreamHandle) { return 0; }
int cuEventSynchronize(EventHandle) { return 0; }
int cuEventElapsedTime(float* milliseconds, EventHandle, EventHandle) {
  return *milliseconds = 1.5F, 0;
}
int cuModuleLoadData(ModuleHandle* made, const void*) { return *made = any_handle<ModuleTag>(), 0; }
int cuModuleUnload(ModuleHandle) { return 0; }
int cuModuleGetFunction(FunctionHandle* made, ModuleHandle, const char*) {
  return *made = any_handle<FunctionTag>(), 0;
}
int cuLaunchKernel(FunctionHandle, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, StreamHandle, void** parameters, void**) {
  const bool plausible = blocks > 0 && threads >= 32 && threads <= 1024 && threads % 32 == 0;
  return plausible && parameters != nullptr ? launch_one() : kInvalid;
}

int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 0, 0; }
int nvrtcCreateProgram(void** made, const char*, const char*, int, const char* const*,
                       const char* const*) {
  return make<int>(made);
}
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcDestroyProgram(void** program) { return discard<int>(*program); }
int nvrtcGetProgramLogSize(void*, std::size_t* size) { return *size = 0, 0; }
int nvrtcGetProgramLog(void*, char*) { return 0; }
int nvrtcGetCUBINSize(void*, std::size_t* size) { return *size = 4, 0; }
int nvrtcGetCUBIN(void*, char* code) { return std::memset(code, 1, 4), 0; }

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "GPU-07070707-0707-0707-0707-070707070707") != 0) return kInvalid;
  return *device = any_handle<void*>(), 0;
}
int nvmlDeviceGetClockInfo(void*, int which, unsigned* megahertz) {
  return *megahertz = which == 1 ? 2490 : 9001, 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 301000, 0; }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) { return *milliwatts = 350000, 0; }
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return *celsius = 61, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  return *reasons = 4, 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned) { return std::memcpy(text, "999", 4), 0; }

std::size_t cublasLtGetVersion() { return 120900; }
int cublasLtCreate(void** made) { return *made = any_handle<void*>(), 0; }
int cublasLtDestroy(void*) { return 0; }
int cublasLtMatmulDescCreate(void** made, int, int) { return make<Operation>(made); }
int cublasLtMatmulDescDestroy(void* made) { return discard<Operation>(made); }
int cublasLtMatmulDescSetAttribute(Operation* op, int attribute, const void* value,
                                   std::size_t size) {
  if (attribute == lt::kDescTransA) return set(op->transpose_a, value, size);
  if (attribute == lt::kDescTransB) return set(op->transpose_b, value, size);
  if (attribute == lt::kDescEpilogue) return set(op->epilogue, value, size);
  return attribute == lt::kDescBiasPointer ? set(op->bias, value, size) : kInvalid;
}
int cublasLtMatrixLayoutCreate(void** made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return kInvalid;
  make<Matrix>(made);
  *static_cast<Matrix*>(*made) = {type, rows, columns, leading, 0, 1};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* made) { return discard<Matrix>(made); }
int cublasLtMatrixLayoutSetAttribute(Matrix* matrix, int attribute, const void* value,
                                     std::size_t size) {
  if (attribute == lt::kLayoutBatchCount) return set(matrix->count, value, size);
  return attribute == lt::kLayoutBatchStride ? set(matrix->stride, value, size) : kInvalid;
}
int cublasLtMatmulPreferenceCreate(void** made) { return make<int>(made); }
int cublasLtMatmulPreferenceDestroy(void* made) { return discard<int>(made); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t size) {
  return size == 4 || size == 8 ? 0 : kInvalid;
}
int cublasLtMatmulAlgoGetHeuristic(void*, const Operation* op, const Matrix* a, const Matrix* b,
                                   const Matrix* c, const Matrix*, void*, int,
                                   lt::HeuristicResult* result, int* count) {
  if (!fits(*op, *a, *b, *c)) return kInvalid;
  *result = {};
  result->workspace_bytes = 1 << 20;
  *count = 1;
  return 0;
}
int cublasLtMatmul(void*, const Operation* op, const void* alpha, const void* a, const Matrix* a_is,
                   const void* b, const Matrix* b_is, const void* beta, const void* c,
                   const Matrix* c_is, void*, const Matrix*, const lt::Algo*, void* workspace,
                   std::size_t, void*) {
  const bool complete = alpha && a && b && beta && c && workspace;
  const bool biased = op->epilogue != lt::kEpilogueBias || op->bias != 0;
  return complete && biased && fits(*op, *a_is, *b_is, *c_is) ? launch_one() : kInvalid;
}
int cublasLtMatmulAlgoConfigGetAttribute(const lt::Algo*, int attribute, void* value,
                                         std::size_t size, std::size_t* written) {
  if ((attribute == lt::kAlgoCluster) != (size == 2)) return kInvalid;
  std::memset(value, 0, size);
  *static_cast<char*>(value) = 20;
  return *written = size, 0;
}

std::size_t cudnnGetVersion() { return 91000; }
int cudnnCreate(void** made) { return *made = any_handle<void*>(), 0; }
int cudnnDestroy(void*) { return 0; }
int cudnnSetStream(void*, void*) { return 0; }
int cudnnCreateTensorDescriptor(void** made) { return make<Tensor>(made); }
int cudnnDestroyTensorDescriptor(void* made) { return discard<Tensor>(made); }
// Refuses strides that leave gaps or overlap.
int cudnnSetTensorNdDescriptor(Tensor* tensor, int, int count, const int* dims,
                               const int* strides) {
  tensor->dims.assign(dims, dims + count);
  std::int64_t elements = 1, last = 0;
  for (int i = 0; i < count; ++i) {
    elements *= dims[i];
    last += static_cast<std::int64_t>(dims[i] - 1) * strides[i];
  }
  return last + 1 == elements ? 0 : kInvalid;
}
int cudnnCreateFilterDescriptor(void** made) { return make<Tensor>(made); }
int cudnnDestroyFilterDescriptor(void* made) { return discard<Tensor>(made); }
int cudnnSetFilterNdDescriptor(Tensor* filter, int, int, int count, const int* dims) {
  return filter->dims.assign(dims, dims + count), 0;
}
int cudnnCreateConvolutionDescriptor(void** made) { return make<Conv>(made); }
int cudnnDestroyConvolutionDescriptor(void* made) { return discard<Conv>(made); }
int cudnnSetConvolutionNdDescriptor(Conv* conv, int axes, const int* pad, const int* stride,
                                    const int* dilation, int mode, int type) {
  conv->pad.assign(pad, pad + axes);
  conv->stride.assign(stride, stride + axes);
  conv->dilation.assign(dilation, dilation + axes);
  return mode == dnn::kCrossCorrelation && type == dnn::kFloat ? 0 : kInvalid;
}
int cudnnSetConvolutionGroupCount(Conv* conv, int groups) { return conv->groups = groups, 0; }
int cudnnSetConvolutionMathType(Conv*, int) { return 0; }
int cudnnGetConvolutionForwardAlgorithm_v7(void*, const void* x, const void* w, const void* conv,
                                           const void* y, int, int* count, dnn::AlgoPerf* found) {
  return heuristic(x, w, conv, y, count, found);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, const void* w, const void* y,
                                                const void* conv, const void* x, int, int* count,
                                                dnn::AlgoPerf* found) {
  return heuristic(x, w, conv, y, count, found);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, const void* x, const void* y,
                                                  const void* conv, const void* w, int, int* count,
                                                  dnn::AlgoPerf* found) {
  return heuristic(x, w, conv, y, count, found);
}
int cudnnConvolutionForward(void*, const void*, const Tensor* x, const void*, const Tensor* w,
                            const void*, const Conv* conv, int, void*, std::size_t, const void*,
                            const Tensor* y, void*) {
  return fits(*x, *w, *conv, *y) ? launch_one() : kInvalid;
}
int cudnnConvolutionBackwardData(void*, const void*, const Tensor* w, const void*, const Tensor* y,
                                 const void*, const Conv* conv, int, void*, std::size_t,
                                 const void*, const Tensor* x, void*) {
  return fits(*x, *w, *conv, *y) ? launch_one() : kInvalid;
}
int cudnnConvolutionBackwardFilter(void*, const void*, const Tensor* x, const void*,
                                   const Tensor* y, const void*, const Conv* conv, int, void*,
                                   std::size_t, const void*, const Tensor* w, void*) {
  return fits(*x, *w, *conv, *y) ? launch_one() : kInvalid;
}

}  // extern "C"
