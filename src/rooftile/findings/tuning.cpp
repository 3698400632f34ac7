#include "rooftile/findings/tuning.h"

#include <algorithm>

namespace rooftile {

bool TunedShape::changes_size(std::string_view name) const {
  return std::ranges::any_of(changes, [&](const TunedSize& size) { return size.name == name; });
}

bool TunedShape::is_padding() const {
  return changes.size() == 1 && keeps_model() && !changes_size("batch");
}

bool TunedShape::keeps_model() const {
  return std::ranges::all_of(changes, [](const TunedSize& size) {
    return size.name == "batch" || (size.name == "vocabulary" && size.to > size.from);
  });
}

std::string_view to_string(TuningVerdict verdict) {
  switch (verdict) {
    case TuningVerdict::nothing_fits:
      return "nothing_fits";
    case TuningVerdict::too_large:
      return "too_large";
    case TuningVerdict::alone:
      return "alone";
    case TuningVerdict::on_front:
      return "on_front";
    case TuningVerdict::within_error:
      return "within_error";
    case TuningVerdict::faster:
      break;
  }
  return "faster";
}

TuningVerdict verdict_of(const Tuning& tuning) {
  if (tuning.present.fit == "does_not_fit") {
    return tuning.smallest ? TuningVerdict::too_large : TuningVerdict::nothing_fits;
  }
  if (tuning.candidates == 0) return TuningVerdict::alone;
  if (tuning.smallest) return TuningVerdict::faster;
  const bool expects_more =
      tuning.better && tuning.better->saving.expected > tuning.present.time * kWorthTraining;
  return expects_more ? TuningVerdict::within_error : TuningVerdict::on_front;
}

}  // namespace rooftile
