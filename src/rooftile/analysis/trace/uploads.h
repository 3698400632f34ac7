// Copies from host to device, with the host's waiting that belongs to them.
#pragma once

#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// All uploads of one place, from one kind of memory.
struct Upload {
  TraceSite site;
  bool pageable = false;
  std::int64_t count = 0;
  Bytes bytes;
  Seconds time, exposed;  // on the GPU; while nothing computes
  Seconds in_line;        // of the exposed: on a stream that also computes
  Seconds blocked;        // the host's waiting
  // Of the GPU, that follows from the waiting. Where a place copies from both kinds of memory, its
  // waits are shared out by the time of the copies.
  Seconds idle;
};

// Places in the order of CopyUse.
std::vector<Upload> uploads(const TraceSummary& trace);

// True when the host waits at a place that copies to the device and not back, so that the copy is
// what it waits for.
bool waits_for_upload(const TraceSummary& trace, const SyncUse& sync);

}  // namespace rooftile
