// Clocks, power, temperature and throttle reasons through NVML, loaded at run time.
#pragma once

#include <memory>
#include <string>

#include "gpu/bench.h"
#include "gpu/cuda/library.h"

namespace rooftile::gpu::cuda {

class NvmlMonitor {
 public:
  // For the GPU with this UUID (GPU-6f3c…).
  static Result<std::unique_ptr<NvmlMonitor>> open(const std::string& uuid);
  ~NvmlMonitor();
  NvmlMonitor(const NvmlMonitor&) = delete;
  NvmlMonitor& operator=(const NvmlMonitor&) = delete;

  Conditions read() const;
  std::optional<Watts> power_limit() const;
  std::string driver_version() const;

 private:
  template <class Checked>
  friend struct AbiCheck;
  using Status = int;  // nvmlReturn_t; 0 is success
  using Device = struct NvmlDeviceTag*;
  // nvmlClockType_t and nvmlTemperatureSensors_t
  static constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

  explicit NvmlMonitor(Library library) : library_(std::move(library)) {}
  Result<void> load();
  std::optional<Hertz> clock(int which) const;

  Library library_;
  Device device_ = nullptr;
  bool started_ = false;
  Status (*init_)() = nullptr;
  Status (*shutdown_)() = nullptr;
  Status (*by_uuid_)(const char*, Device*) = nullptr;
  Status (*clock_)(Device, int, unsigned*) = nullptr;
  Status (*power_)(Device, unsigned*) = nullptr;
  Status (*power_limit_)(Device, unsigned*) = nullptr;
  Status (*temperature_)(Device, int, unsigned*) = nullptr;
  Status (*throttle_)(Device, unsigned long long*) = nullptr;
  Status (*driver_version_)(char*, unsigned) = nullptr;
};

}  // namespace rooftile::gpu::cuda
