// Collectives: steps of latency and the bytes every rank has to move over its link.
#include <algorithm>

#include "rooftile/analysis/time/families.h"

namespace rooftile {
namespace {

const LinkConstants& link_constants(const CollectiveConstants& constants, Link link) {
  if (link == Link::nvlink) return constants.nvlink;
  return link == Link::pcie ? constants.pcie : constants.network;
}

double bandwidth(const LinkConstants& constants, Link link, const Device& device) {
  std::optional<BytesPerSecond> own;
  if (link == Link::nvlink) own = device.nvlink_bandwidth;
  if (link == Link::pcie) own = device.pcie_bandwidth;
  return constants.efficiency * own.value_or(constants.bandwidth).value();
}

// Share of the full tensor that one rank sends. Source: NVIDIA nccl-tests, "Performance reported
// by NCCL tests" (bus bandwidth).
double sent_share(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::broadcast:
    case CollectiveKind::point_to_point:
      return 1;
    default:
      return (ranks - 1) / ranks;
  }
}

double steps(CollectiveKind kind, double ranks) {
  if (kind == CollectiveKind::point_to_point) return 1;
  return kind == CollectiveKind::all_reduce ? 2 * (ranks - 1) : ranks - 1;
}

}  // namespace

TimeEstimate estimate_collective(const TimeContext& context, const Op& op,
                                 const Collective& collective) {
  const auto& section = context.calibration.collective;
  const double ranks = static_cast<double>(std::max<std::int64_t>(collective.ranks, 1));
  TimeEstimate estimate;
  estimate.bound = Bound::communication;
  if (ranks <= 1) return estimate;
  const LinkConstants& link = link_constants(section.constants, collective.link);
  // A tree needs log2(ranks) steps where a ring needs ranks; libraries switch for short messages.
  constexpr double kMostSteps = 16;
  const double latency = link.latency.value() * std::min(steps(collective.fn, ranks), kMostSteps);
  const double bytes = storage(static_cast<double>(collective.elements), op.dtypes.input).value();
  const double transfer =
      bytes * sent_share(collective.fn, ranks) / bandwidth(link, collective.link, context.device);
  estimate.launch = Seconds(latency);
  estimate.memory = Seconds(transfer);
  set_time(estimate, Seconds(latency + transfer), section.constants.interval,
           widening(context, section));
  return estimate;
}

}  // namespace rooftile
