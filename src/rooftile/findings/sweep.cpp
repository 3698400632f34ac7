#include "rooftile/findings/sweep.h"

namespace rooftile {

const SweepRow* best_row(const SweepCurve& curve) {
  const SweepRow* best = nullptr;
  for (const SweepRow& row : curve.rows) {
    const bool is_tight = row.fit == "tight" && best == nullptr;
    if ((row.fit != "fits" && !is_tight) || (curve.knee && row.batch > *curve.knee)) break;
    best = &row;
    if (is_tight) break;
  }
  return best;
}

}  // namespace rooftile
