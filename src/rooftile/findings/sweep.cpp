#include "rooftile/findings/sweep.h"

namespace rooftile {

const SweepRow* best_row(const SweepCurve& curve) {
  const SweepRow* best = nullptr;
  for (const SweepRow& row : curve.rows) {
    if (row.fit == "does_not_fit" || (curve.knee && row.batch > *curve.knee)) break;
    best = &row;
  }
  return best;
}

}  // namespace rooftile
