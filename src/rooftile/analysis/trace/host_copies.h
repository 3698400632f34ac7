// Copies between host and device, with the host's waiting that belongs to them.
#pragma once

#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// All copies of one place in one direction, from or to one kind of the host's memory.
struct HostCopy {
  TraceSite site;
  bool pageable = false;
  bool is_upload = true;  // to the device
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
std::vector<HostCopy> uploads(const TraceSummary& trace);
// The host's waiting is for the results, and no part of these.
std::vector<HostCopy> downloads(const TraceSummary& trace);

struct CopyDirections {
  std::int64_t up = 0, down = 0;  // copies to the device, and from it
};
CopyDirections directions_at(const TraceSummary& trace, const TraceSite& site);

// True when the host waits at a place that copies to the device and not back, so that the copy is
// what it waits for.
bool waits_for_upload(const TraceSummary& trace, const SyncUse& sync);

}  // namespace rooftile
