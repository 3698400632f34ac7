// The part of the CUDA driver's C interface that is used here. Values and structures are those of
// NVIDIA's cuda.h, CUDA 12; abi_check.cpp compares them where that header is found.
#pragma once

#include <cstddef>

namespace rooftile::gpu::cuda {

using Status = int;  // CUresult; 0 is success
using DeviceIndex = int;
using DevicePointer = unsigned long long;
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using GraphHandle = struct GraphTag*;
using GraphNodeHandle = struct GraphNodeTag*;
using GraphExecHandle = struct GraphExecTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using KernelHandle = struct KernelTag*;

// For the libraries that take a device pointer as a pointer; in the driver's API it is an integer.
inline void* as_pointer(DevicePointer pointer) {
  return reinterpret_cast<void*>(pointer);  // NOLINT(performance-no-int-to-ptr)
}

// CUdevice_attribute
enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  clock_rate_khz = 13,
  memory_clock_rate_khz = 36,
  memory_bus_width_bits = 37,
  l2_cache_bytes = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  shared_memory_per_multiprocessor_bytes = 81,
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0;
constexpr int kCaptureThreadLocal = 1;
constexpr int kGraphNodeKernel = 0;

// CUuuid
struct Uuid {
  char bytes[16];
};

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
  FunctionHandle function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  KernelHandle kernel;
  ContextHandle context;
};

}  // namespace rooftile::gpu::cuda
