// The table of a trace's collectives.
#pragma once

#include <vector>

#include "rooftile/findings/report.h"
#include "rooftile/hardware/device.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// Collectives of the first rank by kind, size and ranks, largest time first. With several traces of
// one job the time of a run is the shortest among the ranks, that of the transfer.
std::vector<CollectiveRow> collective_rows(const Workload& workload, const Device* device);

}  // namespace rooftile
