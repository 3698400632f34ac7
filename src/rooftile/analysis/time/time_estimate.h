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
  Range<Seconds> time;  // 90 % interval
  Bound bound = Bound::unknown;
  std::optional<Bound> regime;  // whose measured interval `time` has, where that is another
  Seconds launch, compute, memory, power;  // parts; they overlap, so they do not add up
  std::optional<TileGrid> grid;            // of the chosen tile, for matrix products
  int split_k = 1;
  // Factors on the expected time from effects that another shape would not share (what bad
  // alignment costs); `time` includes them.
  Range<double> own_effects{1, 1, 1};
  // Factor of the expected time that measurements of single shapes add to the kernel model.
  double learned = 1;
  // Part of `time` that goes to converting layouts; another memory format saves it, whatever the
  // rest takes.
  Range<Seconds> conversions;
};

// One after the other: times and parts add, the bound is that of the longer, the grid that of the
// first.
TimeEstimate operator+(const TimeEstimate& first, const TimeEstimate& second);
// The same kernel `times` times in a row.
TimeEstimate operator*(const TimeEstimate& once, double times);

}  // namespace rooftile
