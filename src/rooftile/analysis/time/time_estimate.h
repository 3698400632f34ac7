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

// Whose constants an estimate is made of. Estimates of the same kind share what is not known of
// them.
enum class Kernels {
  mixed,
  tensor_core_gemm,
  cuda_core_gemm,
  convolution,
  attention,
  recurrent,
  persistent_recurrent,
  streaming
};

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
  // No kernel does this work in less at the data sheet's rates; 0 where that is not known.
  Seconds floor;
  // Exponent that leaves of the range, in log, what another shape does not share: 1 for the scatter
  // that was measured on this GPU, less where the constants come from another one.
  double unshared = 1;
  Kernels kernels = Kernels::mixed;
  // Winograd's algorithm, with 2.25 to 4 times fewer multiplications than the flop count.
  bool winograd = false;
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
