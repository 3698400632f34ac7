// What the recorded operations of a trace say of each other's times.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "rooftile/base/units.h"

namespace rooftile {

// One recorded operation: its kernels, their time by the model, and as predicted, and as measured.
struct TimedOp {
  std::string_view family, kernel;  // as in as_run.h; the kernel that takes most of it
  Seconds modelled;
  Range<Seconds> predicted;
  Seconds measured;  // 0 where it was not
};

// The predictions, each corrected by how far those of the others of its family were off, never by
// its own measured time: they ran at this clock, with this driver, beside this program. In the
// order of the operations. Ranges of recordings in whole microseconds are half of one wider to each
// side.
std::vector<Range<Seconds>> learn_from_neighbours(std::span<const TimedOp> ops);

}  // namespace rooftile
