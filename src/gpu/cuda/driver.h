// The CUDA driver: one GPU's primary context, memory, streams and graphs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/driver_abi.h"
#include "gpu/cuda/library.h"
#include "rooftile/base/units.h"

namespace rooftile::gpu::cuda {

// The functions of libcuda, under the names of their newest versions in CUDA 12.
struct DriverFunctions {
  Status (*init)(unsigned);
  Status (*driver_version)(int*);
  Status (*device_count)(int*);
  Status (*device_get)(DeviceIndex*, int);
  Status (*device_name)(char*, int, DeviceIndex);
  Status (*device_uuid)(Uuid*, DeviceIndex);
  Status (*device_memory)(std::size_t*, DeviceIndex);
  Status (*device_attribute)(int*, DeviceAttribute, DeviceIndex);
  Status (*context_retain)(ContextHandle*, DeviceIndex);
  Status (*context_release)(DeviceIndex);
  Status (*context_set)(ContextHandle);
  Status (*error_name)(Status, const char**);
  Status (*memory_allocate)(DevicePointer*, std::size_t);
  Status (*memory_free)(DevicePointer);
  Status (*memory_info)(std::size_t*, std::size_t*);
  Status (*stream_create)(StreamHandle*, unsigned);
  Status (*stream_destroy)(StreamHandle);
  Status (*stream_synchronize)(StreamHandle);
  Status (*capture_begin)(StreamHandle, int);
  Status (*capture_end)(StreamHandle, GraphHandle*);
  Status (*graph_instantiate)(GraphExecHandle*, GraphHandle, unsigned long long);
  Status (*graph_launch)(GraphExecHandle, StreamHandle);
  Status (*graph_destroy)(GraphHandle);
  Status (*graph_exec_destroy)(GraphExecHandle);
  Status (*graph_nodes)(GraphHandle, GraphNodeHandle*, std::size_t*);
  Status (*graph_node_type)(GraphNodeHandle, int*);
  Status (*graph_kernel_params)(GraphNodeHandle, KernelNodeParams*);
  Status (*function_name)(const char**, FunctionHandle);  // null before CUDA 12.3
  Status (*kernel_name)(const char**, KernelHandle);      // null before CUDA 12.3
  Status (*event_create)(EventHandle*, unsigned);
  Status (*event_destroy)(EventHandle);
  Status (*event_record)(EventHandle, StreamHandle);
  Status (*event_synchronize)(EventHandle);
  Status (*event_elapsed_ms)(float*, EventHandle, EventHandle);
  Status (*module_load)(ModuleHandle*, const void*);
  Status (*module_unload)(ModuleHandle);
  Status (*module_function)(FunctionHandle*, ModuleHandle, const char*);
  Status (*launch)(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, StreamHandle, void**, void**);
};

class Driver {
 public:
  // The first GPU that CUDA_VISIBLE_DEVICES shows, its context current on this thread.
  static Result<std::shared_ptr<Driver>> open();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const DriverFunctions& call() const { return functions_; }
  StreamHandle stream() const { return stream_; }
  // An error with the driver's name of the status: "cuLaunchKernel: CUDA_ERROR_…".
  Result<void> check(Status status, const char* doing) const;

  std::string name() const;
  std::string uuid() const;  // as NVML writes it: GPU-6f3c…
  int version() const;       // 12040
  int attribute(DeviceAttribute which) const;
  std::size_t memory_bytes() const;
  std::size_t free_bytes() const;

 private:
  explicit Driver(Library library) : library_(std::move(library)) {}
  Result<void> load();
  Result<void> start();

  Library library_;
  DriverFunctions functions_{};
  DeviceIndex device_ = 0;
  ContextHandle context_ = nullptr;
  StreamHandle stream_ = nullptr;
};

// Device memory that frees itself.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(std::shared_ptr<Driver> driver, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  DeviceMemory(const DeviceMemory&) = delete;

  DevicePointer pointer() const { return pointer_; }

 private:
  DeviceMemory(std::shared_ptr<Driver> driver, DevicePointer pointer)
      : driver_(std::move(driver)), pointer_(pointer) {}

  std::shared_ptr<Driver> driver_;
  DevicePointer pointer_ = 0;
};

}  // namespace rooftile::gpu::cuda
