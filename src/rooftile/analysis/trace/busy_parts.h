// What the GPU's busy time holds that is no work: waiting for other ranks, and kernels that
// something else held up.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

class BusyParts {
 public:
  // `beyond` is the time of each activity beyond the usual one (usual_runs.h), `held_up` the times
  // in which computation waits for other work on the GPU (held_up.h).
  BusyParts(const Timeline& timeline, const GpuTrack& track, const std::vector<Nanoseconds>& beyond,
            const std::vector<HostWait>& waits, const std::vector<Window>& held_up);

  // Of the time in which only collectives run: while this rank's own host allocates GPU memory and
  // has launched nothing that could run beside. Each with its wait.
  const std::vector<IdlePiece>& beside_allocation() const { return beside_allocation_; }

  // Sets the parts of `time`, the breakdown of the window.
  void set_parts(const Window& window, TimeBreakdown& time) const;

 private:
  std::vector<IdlePiece> beside_allocation_;
  std::vector<Window> allocating_;    // the same as a set
  std::vector<Window> rank_waiting_;  // of the exposed time of collectives, the rest
  std::vector<Window> awaited_;       // of that, while computation could go on
  std::vector<Window> stretched_;     // of computation
};

}  // namespace rooftile::trace
