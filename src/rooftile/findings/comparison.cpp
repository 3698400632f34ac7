#include "rooftile/findings/comparison.h"

namespace rooftile {

Verdict verdict_of(const Comparison& comparison) {
  const Range<Seconds>& saving = comparison.saving;
  if (comparison.changed.empty()) return Verdict::same;
  if (saving.low > Seconds()) return Verdict::faster;
  return saving.high < Seconds() ? Verdict::slower : Verdict::unclear;
}

}  // namespace rooftile
