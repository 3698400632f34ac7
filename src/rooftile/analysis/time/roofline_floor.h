// The least time that work takes at the data sheet's rates.
#pragma once

#include "rooftile/analysis/time/time_estimate.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// The larger of the work over the highest rate of the unit and of the bytes that L2 cannot hold
// over the bandwidth of DRAM: below both no kernel comes.
Seconds roofline_floor(Flop flop, FlopPerSecond rate, Bytes bytes, const Device& device);

// The highest clock over the one at which the peaks of Tensor Cores are stated.
double clock_headroom(const Device& device);

// Of an operation, by the algorithm that does the least work.
Seconds roofline_floor(const Op& op, const Device& device);

// Notes the floor in an estimate and raises the range's low end to it. An estimate below its floor
// is wrong in one of the two, and stays as it is.
void add_floor(TimeEstimate& estimate, Seconds floor);

}  // namespace rooftile
