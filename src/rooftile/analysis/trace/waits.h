// What keeps the host from launching: waits for the GPU, the loader, the allocator, other ranks,
// and other work of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// One wait on a thread that launches work. Waits do not overlap: of two the first keeps its time.
struct HostWait {
  Nanoseconds start = 0, end = 0;
  IdleCause cause = IdleCause::synchronization;
  std::uint16_t thread = 0;
  bool is_call = false;     // `row` counts runtime calls, else operators
  std::uint32_t row = 0;    // kNone of other work in no operator
  Nanoseconds exposed = 0;  // idle time of the GPU that follows from it, in the window
  // Of other work: a step, function or range of the program is still at it that began before.
  bool goes_on = false;
};

// Waits and other stretches in which the host launches nothing. By start. A copy from pageable
// memory holds the host until its data is on the way, a copy to the host until the data has come:
// this one is a wait for results like any other synchronisation. Waits of the profiler and for work
// from before the recording are `outside`. Of several threads only those waits count that hold up
// the next launch for the track's GPU.
std::vector<HostWait> find_waits(const Timeline& timeline, const Links& links,
                                 const GpuTrack& track);

constexpr bool is_other_work(IdleCause cause) {
  return cause == IdleCause::host_work || cause == IdleCause::module_loading ||
         cause == IdleCause::asleep;
}

// Not the program's: of the recorder, or for what was there before the recording.
constexpr bool is_recorders(IdleCause cause) {
  return cause == IdleCause::outside || cause == IdleCause::profiler;
}

// The first GPU activity that each call started, kNone where none.
std::vector<std::uint32_t> first_activities(const Timeline& timeline, const Links& links);

// Why the call is a wait, or IdleCause::launch if it is none. `activity` is what it started.
IdleCause wait_cause(const Timeline& timeline, const Links& links, std::uint32_t call,
                     std::uint32_t activity);

}  // namespace rooftile::trace
