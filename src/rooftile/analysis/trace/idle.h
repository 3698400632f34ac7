// Why the GPU had nothing to do: the causes of its gaps.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/waits.h"

namespace rooftile::trace {

// A part of a gap, with the wait that it follows from; kNone where no wait is to blame.
struct IdlePiece {
  Nanoseconds start = 0, end = 0;
  IdleCause cause = IdleCause::unknown;
  std::uint32_t wait = kNone;
};

// Splits every gap without remainder. A gap lasts until the next activity starts, and what the host
// did from the gap's start until this one's launch reached the GPU explains it:
//  - while the launching thread, or one that it waited for, was inside a wait, the gap is that
//  wait's;
//  - the host's work after the wait would have happened earlier without it, while the GPU was still
//    busy. So a wait that ran beside a busy GPU for some time is to blame for as much of the idle
//    time that follows: its credit. That of a wait for the GPU holds until it is used up or the
//    host is ahead of the GPU again, that of another wait for the gap that the next launch ends.
//    The latest credit is used first. A wait for the GPU ends the credit of other causes: without
//    those it would only have begun earlier and lasted longer;
//  - without credit the host was simply slower than the GPU: launch;
//  - if the call had returned before the gap began, the GPU had work and paused by itself;
//  - what comes before the first work of a program that is recorded from its start is start-up;
//  - work that starts far later than its launch waited for something that the trace lacks, unless
//    another GPU of the trace was at work.
std::vector<IdlePiece> explain_gaps(const Timeline& timeline, const Links& links,
                                    const GpuTrack& track, const BusySplit& split,
                                    const std::vector<HostWait>& waits);

// The part of the pieces within the window, by cause.
std::map<IdleCause, Nanoseconds> idle_by_cause(const std::vector<IdlePiece>& pieces,
                                               const Window& window);

// Time from the start of a launch call to the start of its kernel on an idle GPU: the median.
Nanoseconds usual_latency(const Timeline& timeline, const Links& links, const GpuTrack& track,
                          const BusySplit& split);

// The usual time between late starts where nearly all lie equally far apart, whatever was launched
// when: another process has the GPU between them. 0 where they do not.
Nanoseconds time_slice_of(const std::vector<IdlePiece>& pieces);

}  // namespace rooftile::trace
