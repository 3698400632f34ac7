#include "rooftile/findings/tuning.h"

namespace rooftile {

bool TunedShape::is_padding() const {
  return changes.size() == 1 && changes.front().name == "vocabulary" &&
         changes.front().to > changes.front().from;
}

TuningVerdict verdict_of(const Tuning& tuning) {
  if (tuning.candidates == 0) return TuningVerdict::alone;
  if (tuning.smallest) return TuningVerdict::faster;
  const bool expects_more =
      tuning.better && tuning.better->saving.expected > tuning.present.time * kWorthTraining;
  return expects_more ? TuningVerdict::within_error : TuningVerdict::on_front;
}

}  // namespace rooftile
