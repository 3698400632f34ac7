// A device description from what the driver tells, for GPUs that are not built in.
#pragma once

#include <optional>
#include <string>

#include "rooftile/base/result.h"
#include "rooftile/hardware/device.h"

namespace rooftile::gpu {

struct DriverFacts {
  std::string name;            // "NVIDIA L40S"
  int compute_capability = 0;  // 89
  int sms = 0;
  Hertz clock, memory_clock;  // highest
  int memory_bus_bits = 0;
  Bytes memory, l2, shared_memory_per_sm;
  std::optional<Watts> power_limit;
};

// Peaks are SMs times what an SM of this compute capability does per clock; the bandwidth is two
// transfers per memory clock. An error for a compute capability before 6.0.
Result<Device> device_of_facts(const DriverFacts& facts);

}  // namespace rooftile::gpu
