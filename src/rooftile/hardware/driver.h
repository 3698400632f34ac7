// Which GPU of the machine is meant, from what the driver lists.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"

namespace rooftile {

struct DriverGpu {
  std::string name;  // "NVIDIA A100-SXM4-80GB"
  std::string uuid;  // "GPU-6f3c…"
};

// All GPUs in driver order, through libnvidia-ml; an error where there is no driver.
Result<std::vector<DriverGpu>> list_driver_gpus();

// The first GPU that CUDA_VISIBLE_DEVICES (empty when unset) leaves visible, by index or UUID.
Result<DriverGpu> first_visible(const std::vector<DriverGpu>& gpus,
                                std::optional<std::string_view> visible_devices);

// The built-in device of the driver's name; an error that points to --gpu-file for an unknown one.
Result<Device> device_of_driver_gpu(const DriverGpu& gpu);

}  // namespace rooftile
