// The training loop's own ranges, runs of kernels that could be fused, and the reductions of
// gradients beside the backward passes.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/idle.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/analysis/trace/python_sites.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

// Optimizer.step and Optimizer.zero_grad by name, those that begin in the window.
std::vector<RangeUse> training_ranges(const Timeline& timeline, const Links& links,
                                      const GpuTrack& track, const std::vector<IdlePiece>& pieces,
                                      const Window& window, PythonSites& sites);

// Kernels that begin in the window, but those of the training loop's own ranges and of `others`,
// which have other remedies: by GPU activity, empty where there are none.
PointwiseUse pointwise_runs(const Timeline& timeline, const Links& links, const KernelNames& names,
                            const GpuTrack& track, const Window& window,
                            const std::vector<bool>& others);

// Idle time in the window between one collective and the next with no computation between them, but
// for a few short kernels such as copies of what was reduced.
Seconds idle_between_collectives(const Timeline& timeline, const GpuTrack& track,
                                 const std::vector<IdlePiece>& pieces, const Window& window);

// Backward passes that begin in the window. A pass ends where other work than that of autograd
// nodes computes: another forward pass, the optimizer. None where operators are not recorded.
GradientReductions gradient_reductions(const Timeline& timeline, const Links& links,
                                       const GpuTrack& track, const Window& window);

}  // namespace rooftile::trace
