// Copies from host to device, with the host's waiting that belongs to them.
#pragma once

#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// All uploads of one place.
struct Upload {
  TraceSite site;
  bool pageable = false;   // any of them
  std::int64_t count = 0;  // of the whole recording; the rest is of the window
  Bytes bytes;
  Seconds time, exposed;  // on the GPU; while nothing computes
  Seconds blocked;        // the host's waiting
  Seconds idle;           // of the GPU, that follows from the waiting
};

// Places in the order of CopyUse.
std::vector<Upload> uploads(const TraceSummary& trace);

// True when the host waits at a place that copies to the device and not back, so that the copy is
// what it waits for.
bool waits_for_upload(const TraceSummary& trace, const SyncUse& sync);

}  // namespace rooftile
