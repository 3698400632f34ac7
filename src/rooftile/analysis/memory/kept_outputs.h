// What a backward pass needs of the forward pass: tensors that autograd saves until then.
#pragma once

#include <vector>

#include "rooftile/workload/workload.h"

namespace rooftile {

// For each operation, by index, the bytes that one run of it leaves for the backward pass; 0 where
// nothing of it is read again. Inputs of the network are not counted.
std::vector<Bytes> kept_bytes(const Workload& workload);

}  // namespace rooftile
