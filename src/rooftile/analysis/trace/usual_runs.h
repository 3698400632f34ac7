// How much longer activities of the GPU ran than the same work does elsewhere in the recording.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/steps.h"

namespace rooftile::trace {

// The time of each GPU activity beyond the usual one; empty where no activity has any.
//  - Of a collective: beyond the fastest run of its kind and group that moves as many bytes or
//  more, or what a slow link takes for them. Until the last rank comes the others wait in it.
//  Without a recorded size: beyond the fastest at its place in the steps, or what few runs take
//  beyond many times the median.
//  - Of another kernel: beyond the median of the runs of its name, launch and shapes, where a run
//  takes more than five times as long, which few do, and 50 us more. Something else held it up.
//  Kernels whose work depends on data, or on sizes that the recording lacks, have none.
std::vector<Nanoseconds> times_beyond_usual(const Timeline& timeline, const Links& links,
                                            const KernelNames& names, const GpuTrack& track,
                                            const StepMarks& marks);

// The kernels among them.
StretchedRuns stretched_runs(const Timeline& timeline, const GpuTrack& track,
                             const std::vector<Nanoseconds>& beyond);

}  // namespace rooftile::trace
