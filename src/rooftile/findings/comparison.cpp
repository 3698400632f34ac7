#include "rooftile/findings/comparison.h"

namespace rooftile {

Verdict verdict_of(const Comparison& comparison) {
  const Range<Seconds>& saving = comparison.saving;
  if (comparison.changed.empty()) return Verdict::same;
  if (!is_sufficient(comparison.before.coverage) || !is_sufficient(comparison.after.coverage)) {
    return Verdict::unknown;
  }
  if (saving.low > Seconds()) return Verdict::faster;
  return saving.high < Seconds() ? Verdict::slower : Verdict::unclear;
}

}  // namespace rooftile
