#include "rooftile/hardware/driver.h"

#include <fmt/format.h>

#include <cstdlib>

#include "rooftile/base/text.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {

Result<DriverGpu> first_visible(const std::vector<DriverGpu>& gpus,
                                std::optional<std::string_view> visible_devices) {
  if (gpus.empty()) return fail("the NVIDIA driver lists no GPU");
  if (!visible_devices) return gpus.front();
  const std::string_view first = trim(split(*visible_devices, ',').front());
  if (first.starts_with("MIG-")) {
    return fail("CUDA_VISIBLE_DEVICES names a MIG slice: give it as in --gpu a100:3g.40gb");
  }
  if (first.starts_with("GPU-")) {
    for (const DriverGpu& gpu : gpus) {
      if (gpu.uuid.starts_with(first)) return gpu;  // CUDA takes a unique prefix too
    }
    return fail(fmt::format("CUDA_VISIBLE_DEVICES names {}, which the driver does not list",
                            rooftile::quoted(first)));
  }
  const std::optional<std::int64_t> index = parse_integer(first);
  if (!index || *index < 0) {
    return fail(
        fmt::format("CUDA_VISIBLE_DEVICES={} hides every GPU", rooftile::quoted(*visible_devices)));
  }
  if (*index >= static_cast<std::int64_t>(gpus.size())) {
    return fail(
        fmt::format("CUDA_VISIBLE_DEVICES names GPU {}, the driver lists {}", *index, gpus.size()));
  }
  return gpus[static_cast<std::size_t>(*index)];
}

Result<Device> device_of_driver_gpu(const DriverGpu& gpu) {
  Result<Device> device = find_device(gpu.name);
  if (device) return device;
  return fail(
      fmt::format("this machine has {}, for which there is no built-in data: describe it "
                  "with --gpu-file, or name a similar GPU with --gpu ({})",
                  rooftile::quoted(gpu.name), device.error().message));
}

Result<Device> detect_device() {
  const Result<std::vector<DriverGpu>> gpus = list_driver_gpus();
  if (!gpus) return tl::unexpected(gpus.error());
  std::optional<std::string_view> visible;
  if (const char* value = std::getenv("CUDA_VISIBLE_DEVICES")) visible = value;
  const Result<DriverGpu> gpu = first_visible(*gpus, visible);
  if (!gpu) return tl::unexpected(gpu.error());
  return device_of_driver_gpu(*gpu);
}

}  // namespace rooftile
