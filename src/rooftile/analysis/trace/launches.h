// Kernels in the order in which the threads of the host launched them.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/analysis/trace/busy.h"
#include "rooftile/analysis/trace/links.h"

namespace rooftile::trace {

struct Launched {
  std::uint16_t thread = 0;
  Nanoseconds at = 0;  // of the launch
  std::uint32_t activity = 0;
};

// Kernels, copies and fills that start in the window and whose operator is known, by thread and
// then by launch.
std::vector<Launched> kernels_by_launch(const Timeline& timeline, const Links& links,
                                        const Window& window);

}  // namespace rooftile::trace
