// How long an operation takes, with the parts that say why.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/analysis/tiles.h"
#include "rooftile/base/units.h"

namespace rooftile {

// What an operation waits for most.
enum class Bound { math, memory, latency, communication, unknown };
std::string_view to_string(Bound bound);

struct TimeEstimate {
  Range<Seconds> time;       // 90 % interval
  Bound bound = Bound::unknown;
  Seconds launch, compute, memory, power;  // parts; they overlap, so they do not add up
  std::optional<TileGrid> grid;            // of the chosen tile, for matrix products
  int split_k = 1;
};

}  // namespace rooftile
