// When computation waits for other work on the GPU.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

// Times without a computing kernel, and with a collective, in which one of the next had been
// launched already, or the host waited for the GPU before it launched more. A collective in them
// holds the program up; beside a host that has launched nothing yet it costs nothing. A kernel
// without a recorded launch counts as launched, and so does what follows the last. `latency` is
// that of a launch to an idle GPU. Disjoint, in order.
std::vector<Window> held_up_times(const Timeline& timeline, const Links& links,
                                  const GpuTrack& track, const std::vector<HostWait>& waits,
                                  const Cover& collectives, Nanoseconds latency);

// When collectives run.
Cover communication_cover(const Timeline& timeline, const GpuTrack& track);

// How much of the windows, within `bounds`, is covered.
Nanoseconds covered(const Cover& cover, const std::vector<Window>& windows, const Window& bounds);

}  // namespace rooftile::trace
