// Whether what a workload holds fits into a GPU's memory.
#pragma once

#include "rooftile/base/units.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

enum class MemoryFit { fits, tight, does_not_fit };

struct HeldMemory {
  Range<Bytes> total{};
  Bytes usable;  // of the GPU
  MemoryFit fit = MemoryFit::fits;
};

// tight: the estimate leaves open whether it fits, and expects that it does.
HeldMemory held_memory(const Workload& workload, const Device& device);

}  // namespace rooftile
