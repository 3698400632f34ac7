// The least time that work takes at the data sheet's rates.
#pragma once

#include "rooftile/analysis/time/context.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// The larger of the work over the highest rate of the unit and of the bytes that L2 cannot hold
// over the bandwidth of DRAM: below both no kernel comes.
Seconds roofline_floor(Flop flop, FlopPerSecond rate, Bytes bytes, const Device& device);

// The second of them alone.
Seconds memory_floor(Bytes bytes, const Device& device);

// Of an operation, by the algorithm that does the least work.
Seconds roofline_floor(const Op& op, const Device& device);

// Notes the floor in an estimate, raises the range's low end to it and the expected time to what
// libraries attain of it. Only what was measured on the GPU at hand may lie below: cards may clock
// above their data sheet.
void add_floor(const TimeContext& context, TimeEstimate& estimate, Seconds floor);

}  // namespace rooftile
