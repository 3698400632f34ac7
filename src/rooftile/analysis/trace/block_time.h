// What the blocks of a kernel do one after the other, whatever DRAM delivers.
#pragma once

#include <optional>

#include "rooftile/hardware/device.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// The time of the kernel of `use` behind its launch, where its name tells how its blocks work; as
// long as a kernel is short of blocks, or each of them waits for its own loads, bytes take less.
std::optional<Seconds> time_of_blocks(const Device& device, const OpUse& use);

}  // namespace rooftile
