// The tensors that operations write.
#pragma once

#include "rooftile/base/units.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// Bytes that one run of a forward operation leaves in memory.
Bytes output_bytes(const Op& op);

}  // namespace rooftile
