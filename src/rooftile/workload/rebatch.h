// A workload at another batch, without reading its model again.
#pragma once

#include <optional>

#include "rooftile/workload/workload.h"

namespace rooftile {

// Sizes that count samples and hold the workload's batch as a factor grow with it; others, and
// weights, stay. At batch 1 every size holds it, so read a small model again where that is cheap.
// Empty where the workload states no batch, or where a size would be too large.
std::optional<Workload> at_batch(const Workload& workload, std::int64_t batch);

}  // namespace rooftile
