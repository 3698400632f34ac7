#include "gpu/cuda/nvml_monitor.h"

#include <fmt/format.h>

#include <array>

namespace rooftile::gpu::cuda {

Result<std::unique_ptr<NvmlMonitor>> NvmlMonitor::open(const std::string& uuid) {
  Result<Library> library = Library::open({"libnvidia-ml.so.1"}, "NVML");
  if (!library) return tl::unexpected(library.error());
  std::unique_ptr<NvmlMonitor> monitor(new NvmlMonitor(std::move(*library)));
  if (const auto loaded = monitor->load(); !loaded) return tl::unexpected(loaded.error());
  if (const Status status = monitor->init_(); status != 0) {
    return fail(fmt::format("nvmlInit: status {}", status));
  }
  monitor->started_ = true;
  if (const Status status = monitor->by_uuid_(uuid.c_str(), &monitor->device_); status != 0) {
    return fail(fmt::format("nvmlDeviceGetHandleByUUID: status {}", status));
  }
  return monitor;
}

Result<void> NvmlMonitor::load() {
  library_.load("nvmlInit_v2", init_);
  library_.load("nvmlShutdown", shutdown_);
  library_.load("nvmlDeviceGetHandleByUUID", by_uuid_);
  library_.load("nvmlDeviceGetClockInfo", clock_);
  library_.load("nvmlDeviceGetPowerUsage", power_);
  library_.load("nvmlDeviceGetEnforcedPowerLimit", power_limit_);
  library_.load("nvmlDeviceGetTemperature", temperature_);
  // The name before driver 535; newer ones keep it.
  library_.load("nvmlDeviceGetCurrentClocksThrottleReasons", throttle_);
  library_.load("nvmlSystemGetDriverVersion", driver_version_);
  return library_.finish();
}

NvmlMonitor::~NvmlMonitor() {
  if (started_) shutdown_();
}

std::optional<Hertz> NvmlMonitor::clock(int which) const {
  unsigned megahertz = 0;
  if (clock_(device_, which, &megahertz) != 0) return std::nullopt;
  return Hertz(1e6 * megahertz);
}

Conditions NvmlMonitor::read() const {
  Conditions conditions;
  conditions.sm_clock = clock(kClockSm);
  conditions.memory_clock = clock(kClockMemory);
  unsigned value = 0;
  if (power_(device_, &value) == 0) conditions.power = Watts(1e-3 * value);
  if (temperature_(device_, kTemperatureGpu, &value) == 0) conditions.temperature_celsius = value;
  unsigned long long reasons = 0;
  if (throttle_(device_, &reasons) == 0) conditions.throttle_reasons = reasons;
  return conditions;
}

std::optional<Watts> NvmlMonitor::power_limit() const {
  unsigned milliwatts = 0;
  if (power_limit_(device_, &milliwatts) != 0) return std::nullopt;
  return Watts(1e-3 * milliwatts);
}

std::string NvmlMonitor::driver_version() const {
  std::array<char, 96> text{};
  if (driver_version_(text.data(), static_cast<unsigned>(text.size())) != 0) return "unknown";
  return text.data();
}

}  // namespace rooftile::gpu::cuda
