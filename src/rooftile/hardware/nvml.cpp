// The few NVML functions needed to name the GPUs, loaded at run time so that no CUDA installation
// is needed to build. Source: NVML API Reference, "Initialization and Cleanup", "Device Queries".
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "rooftile/hardware/driver.h"

namespace rooftile {
namespace {

constexpr int kSuccess = 0;  // NVML_SUCCESS
// NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE are both 96.
constexpr unsigned kTextSize = 96;
constexpr unsigned kMaxGpus = 1024;
constexpr const char* kHelp = "name the GPU with --gpu or describe it with --gpu-file";

using DeviceHandle = void*;
using CountFunction = int(unsigned*);
using HandleFunction = int(unsigned, DeviceHandle*);
using TextFunction = int(DeviceHandle, char*, unsigned);

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  CountFunction* count = nullptr;
  HandleFunction* handle = nullptr;
  TextFunction* name = nullptr;
  TextFunction* uuid = nullptr;
};

template <class Function>
bool load(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

bool load_all(void* library, Nvml& nvml) {
  return load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
         load(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         load(library, "nvmlDeviceGetName", nvml.name) &&
         load(library, "nvmlDeviceGetUUID", nvml.uuid);
}

std::string text_of(TextFunction* function, DeviceHandle device) {
  std::array<char, kTextSize> buffer{};
  if (function(device, buffer.data(), kTextSize) != kSuccess) return "";
  buffer.back() = '\0';
  return buffer.data();
}

// An unreadable GPU keeps its place with an empty name, so that indices stay those of the driver.
std::vector<DriverGpu> list_gpus(const Nvml& nvml) {
  unsigned count = 0;
  std::vector<DriverGpu> gpus;
  if (nvml.count(&count) != kSuccess) return gpus;
  for (unsigned i = 0; i < count && i < kMaxGpus; ++i) {
    DeviceHandle device = nullptr;
    const bool known = nvml.handle(i, &device) == kSuccess;
    gpus.push_back(known ? DriverGpu{text_of(nvml.name, device), text_of(nvml.uuid, device)}
                         : DriverGpu{});
  }
  return gpus;
}

}  // namespace

Result<std::vector<DriverGpu>> list_driver_gpus() {
  const Library library(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL));
  if (!library) {
    return fail(fmt::format("no NVIDIA driver found (libnvidia-ml.so.1): {}", kHelp));
  }
  Nvml nvml;
  if (!load_all(library.get(), nvml)) {
    return fail(fmt::format("the NVIDIA driver's libnvidia-ml.so.1 lacks a function: {}", kHelp));
  }
  if (const int status = nvml.init(); status != kSuccess) {
    return fail(
        fmt::format("the NVIDIA driver does not answer (NVML status {}): {}", status, kHelp));
  }
  std::vector<DriverGpu> gpus = list_gpus(nvml);
  nvml.shutdown();
  return gpus;
}

}  // namespace rooftile
