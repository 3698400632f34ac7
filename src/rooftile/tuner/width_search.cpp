#include "rooftile/tuner/width_search.h"

#include <algorithm>
#include <vector>

#include "rooftile/analysis/alignment.h"

namespace rooftile {
namespace {

// A wider multiple has to be better by this factor: differences below it are noise of the model.
constexpr double kLeastStep = 1.01;
// Inductor never pads a width by more than it gains; 25 % more work is beyond any alignment gain.
constexpr double kMaxGrowth = 1.25;

std::vector<std::int64_t> candidates(std::int64_t width, std::int64_t step) {
  std::vector<std::int64_t> widths;
  const std::int64_t even_tiles = round_up(width, std::max<std::int64_t>(64, step));
  if (static_cast<double>(even_tiles) <= 1.01 * static_cast<double>(width)) {
    widths.push_back(even_tiles);
  }
  widths.push_back(round_up(width, step));
  for (const std::int64_t multiple : {16, 32, 64, 128, 256}) {
    const std::int64_t wide = round_up(width, multiple);
    if (multiple > step && static_cast<double>(wide) <= kMaxGrowth * static_cast<double>(width)) {
      widths.push_back(wide);
    }
  }
  return widths;
}

}  // namespace

std::int64_t choose_padded_width(std::int64_t width, std::int64_t step, const SavingAt& saving_at) {
  const std::vector<std::int64_t> widths = candidates(width, step);
  std::int64_t best = widths.front();
  std::optional<Range<Seconds>> best_saving = saving_at(best);
  for (const std::int64_t candidate : widths) {
    const std::optional<Range<Seconds>> saving = saving_at(candidate);
    if (!saving || !best_saving) continue;
    const double least = std::max(kLeastStep * best_saving->expected.value(), 0.0);
    if (saving->expected.value() > least) {
      best = candidate;
      best_saving = saving;
    }
  }
  return best;
}

}  // namespace rooftile
