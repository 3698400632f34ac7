#include "rooftile/analysis/held_memory.h"

#include "rooftile/analysis/step.h"

namespace rooftile {

HeldMemory held_memory(const Workload& workload, const Device& device) {
  HeldMemory memory{estimate_memory(workload).total(), device.dram_size, MemoryFit::fits};
  if (memory.total.high > memory.usable) memory.fit = MemoryFit::tight;
  if (memory.total.expected > memory.usable) memory.fit = MemoryFit::does_not_fit;
  return memory;
}

}  // namespace rooftile
