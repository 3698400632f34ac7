#include "gpu/cuda/driver.h"

#include <fmt/format.h>

#include <array>

namespace rooftile::gpu::cuda {

Result<std::shared_ptr<Driver>> Driver::open() {
  Result<Library> library = Library::open({"libcuda.so.1"}, "NVIDIA driver");
  if (!library) {
    return fail(library.error().message +
                ": measuring needs a GPU; `rooftile measure --points FILE.csv` calibrates from "
                "timings you have");
  }
  std::shared_ptr<Driver> driver(new Driver(std::move(*library)));
  if (const Result<void> loaded = driver->load(); !loaded) return tl::unexpected(loaded.error());
  if (const Result<void> started = driver->start(); !started) {
    return tl::unexpected(started.error());
  }
  return driver;
}

Result<void> Driver::load() {
  DriverFunctions& f = functions_;
  library_.load("cuInit", f.init);
  library_.load("cuDriverGetVersion", f.driver_version);
  library_.load("cuDeviceGetCount", f.device_count);
  library_.load("cuDeviceGet", f.device_get);
  library_.load("cuDeviceGetName", f.device_name);
  library_.load("cuDeviceGetUuid", f.device_uuid);
  library_.load("cuDeviceTotalMem_v2", f.device_memory);
  library_.load("cuDeviceGetAttribute", f.device_attribute);
  library_.load("cuDevicePrimaryCtxRetain", f.context_retain);
  library_.load("cuDevicePrimaryCtxRelease_v2", f.context_release);
  library_.load("cuCtxSetCurrent", f.context_set);
  library_.load("cuGetErrorName", f.error_name);
  library_.load("cuMemAlloc_v2", f.memory_allocate);
  library_.load("cuMemFree_v2", f.memory_free);
  library_.load("cuMemGetInfo_v2", f.memory_info);
  library_.load("cuStreamCreate", f.stream_create);
  library_.load("cuStreamDestroy_v2", f.stream_destroy);
  library_.load("cuStreamSynchronize", f.stream_synchronize);
  library_.load("cuStreamBeginCapture_v2", f.capture_begin);
  library_.load("cuStreamEndCapture", f.capture_end);
  library_.load("cuGraphInstantiateWithFlags", f.graph_instantiate);
  library_.load("cuGraphLaunch", f.graph_launch);
  library_.load("cuGraphDestroy", f.graph_destroy);
  library_.load("cuGraphExecDestroy", f.graph_exec_destroy);
  library_.load("cuGraphGetNodes", f.graph_nodes);
  library_.load("cuGraphNodeGetType", f.graph_node_type);
  library_.load("cuGraphKernelNodeGetParams_v2", f.graph_kernel_params);
  library_.load_if_there("cuFuncGetName", f.function_name);
  library_.load_if_there("cuKernelGetName", f.kernel_name);
  library_.load("cuEventCreate", f.event_create);
  library_.load("cuEventDestroy_v2", f.event_destroy);
  library_.load("cuEventRecord", f.event_record);
  library_.load("cuEventSynchronize", f.event_synchronize);
  library_.load("cuEventElapsedTime", f.event_elapsed_ms);
  library_.load("cuModuleLoadData", f.module_load);
  library_.load("cuModuleUnload", f.module_unload);
  library_.load("cuModuleGetFunction", f.module_function);
  library_.load("cuLaunchKernel", f.launch);
  return library_.finish();
}

Result<void> Driver::start() {
  if (const auto done = check(functions_.init(0), "cuInit"); !done) return done;
  int count = 0;
  if (const auto done = check(functions_.device_count(&count), "cuDeviceGetCount"); !done) {
    return done;
  }
  if (count < 1) return fail("the NVIDIA driver shows no GPU to CUDA");
  for (const auto& [status, doing] :
       {std::pair(functions_.device_get(&device_, 0), "cuDeviceGet"),
        std::pair(functions_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain")}) {
    if (const auto done = check(status, doing); !done) return done;
  }
  if (const auto done = check(functions_.context_set(context_), "cuCtxSetCurrent"); !done) {
    return done;
  }
  return check(functions_.stream_create(&stream_, kStreamNonBlocking), "cuStreamCreate");
}

Driver::~Driver() {
  if (stream_ != nullptr) functions_.stream_destroy(stream_);
  if (context_ != nullptr) functions_.context_release(device_);
}

Result<void> Driver::check(Status status, const char* doing) const {
  if (status == 0) return {};
  const char* name = nullptr;
  if (functions_.error_name(status, &name) != 0 || name == nullptr) name = "unknown error";
  return fail(fmt::format("{}: {} ({})", doing, name, status));
}

std::string Driver::name() const {
  std::array<char, 128> text{};
  functions_.device_name(text.data(), static_cast<int>(text.size()) - 1, device_);
  return text.data();
}

std::string Driver::uuid() const {
  Uuid uuid{};
  if (functions_.device_uuid(&uuid, device_) != 0) return "";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

int Driver::version() const {
  int version = 0;
  functions_.driver_version(&version);
  return version;
}

int Driver::attribute(DeviceAttribute which) const {
  int value = 0;
  functions_.device_attribute(&value, which, device_);
  return value;
}

std::size_t Driver::memory_bytes() const {
  std::size_t bytes = 0;
  functions_.device_memory(&bytes, device_);
  return bytes;
}

std::size_t Driver::free_bytes() const {
  std::size_t free = 0, total = 0;
  functions_.memory_info(&free, &total);
  return free;
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<Driver> driver, std::size_t bytes) {
  DevicePointer pointer = 0;
  const std::size_t size = bytes == 0 ? 1 : bytes;
  const auto done = driver->check(driver->call().memory_allocate(&pointer, size), "cuMemAlloc");
  if (!done) return tl::unexpected(done.error());
  return DeviceMemory(std::move(driver), pointer);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : driver_(std::move(other.driver_)), pointer_(other.pointer_) {
  other.pointer_ = 0;
}

DeviceMemory::~DeviceMemory() {
  if (pointer_ != 0 && driver_) driver_->call().memory_free(pointer_);
}

}  // namespace rooftile::gpu::cuda
