#include "rooftile/findings/sweep.h"

#include <algorithm>

namespace rooftile {

const SweepRow* best_row(const SweepCurve& curve) {
  const auto best = std::ranges::find_if(
      curve.rows, [&](const SweepRow& row) { return row.batch == curve.best; });
  return best == curve.rows.end() ? nullptr : &*best;
}

}  // namespace rooftile
