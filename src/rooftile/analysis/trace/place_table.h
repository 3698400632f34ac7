// GPU time by module and by range of the user, the backward pass of what they ran included.
#pragma once

#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile::trace {

struct PlaceTables {
  std::vector<PlaceUse> modules, annotations;  // largest GPU time first, at most kMostPlaces
};
inline constexpr std::size_t kMostPlaces = 4096;

// Of the activities in `track`. Modules are the frames of nn.Module, else ranges that name a module
// (of PyTorch Lightning and vLLM), else what old traces note with each operator.
PlaceTables tabulate_places(const Timeline& timeline, const Links& links, const GpuTrack& track);

// Outermost ranges of the program whose kernels all lie outside the window.
std::vector<UnjudgedRange> unjudged_ranges(const Timeline& timeline, const Links& links,
                                           const GpuTrack& track, const Window& window);

}  // namespace rooftile::trace
