#include "rooftile/analysis/conv_layout.h"

#include "rooftile/analysis/convolution.h"
#include "rooftile/analysis/cost.h"

namespace rooftile {
namespace {

constexpr double kDefault = 0.823;
constexpr double kGrouped = 1.358;
constexpr double kShrinking = 0.725;
constexpr double kSmall = 0.783;
constexpr std::int64_t kSmallChannels = 64;

}  // namespace

bool is_grouped(const Convolution& conv) {
  return conv.groups > 1 && input_channels_per_group(conv) > 1;
}
bool is_shrinking(const Convolution& conv) { return 2 * conv.k <= conv.c && !is_pointwise(conv); }
bool is_small(const Convolution& conv) {
  return conv.c <= kSmallChannels && conv.k <= kSmallChannels;
}

double channels_last_factor(const Convolution& conv) {
  if (is_grouped(conv)) return kGrouped;
  if (is_small(conv)) return kSmall;
  return is_shrinking(conv) ? kShrinking : kDefault;
}

bool channels_last_pays(const Workload& workload) {
  const bool training = workload.mode == Mode::training;
  double before = 0, after = 0;
  bool all_small = true;
  for (const Op& op : workload.ops) {
    const auto* conv = std::get_if<Convolution>(&op.body);
    if (conv == nullptr || op.phase != Phase::forward) continue;
    if (training && (is_grouped(*conv) || is_shrinking(*conv))) return false;
    all_small = all_small && is_small(*conv);
    const double flop = count_cost(op).flop.value() * static_cast<double>(op.count);
    before += flop;
    after += flop * channels_last_factor(*conv);
  }
  return before > 0 && after <= before && (!training || !all_small);
}

}  // namespace rooftile
