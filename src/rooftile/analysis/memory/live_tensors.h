// The activations that are in memory at the same time.
#pragma once

#include "rooftile/workload/workload.h"

namespace rooftile {

// The largest sum of tensors alive at one time of a forward pass without gradients: each from the
// operation that writes it to the last that reads it. An operation whose inputs are unknown reads
// the one before. `size` gives the bytes an operation writes.
Bytes peak_live_bytes(const Workload& workload, Bytes (*size)(const Op&));

}  // namespace rooftile
