// Kernels that wait for memory: launch, then bytes over what DRAM or L2 delivers.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/families.h"

namespace rooftile {
namespace {

double efficiency_of(const StreamConstants& constants, Access access) {
  switch (access) {
    case Access::elementwise:
      return constants.dram_efficiency;
    case Access::rows:
      return constants.row_efficiency;
    case Access::gather:
      return constants.gather_efficiency;
    case Access::transpose:
      return constants.transpose_efficiency;
  }
  return constants.dram_efficiency;
}

// Seconds for the bytes when `warm` of them come from L2.
double transfer_time(const StreamConstants& c, double bytes, double efficiency,
                     const Device& device) {
  const double capacity = std::max(c.l2_share * device.l2_size.value(), 1.0);
  const double warm = 1.0 / (1.0 + std::pow(bytes / capacity, 6));
  const double effective = bytes * ((1 - warm) + warm / c.l2_speedup);
  return effective / (efficiency * device.dram_bandwidth.value());
}

// Rows are not split over SMs: few long rows leave SMs idle, and one SM draws only so much.
double idle_sm_factor(const StreamConstants& c, double rows, const Device& device) {
  if (rows <= 0) return 1;
  return std::max(1.0, std::max(device.sms, 1) / (rows * c.sm_share));
}

// The optimizer of PyTorch runs over many tensors in few launches; its traffic is plain.
Access access_of(const Body& body) {
  if (std::holds_alternative<Normalization>(body) || std::holds_alternative<Softmax>(body) ||
      std::holds_alternative<Reduction>(body) || std::holds_alternative<Pooling>(body)) {
    return Access::rows;
  }
  if (std::holds_alternative<Embedding>(body)) return Access::gather;
  return std::holds_alternative<LayoutConversion>(body) ? Access::transpose : Access::elementwise;
}

// Independent rows, 0 where the work splits anywhere.
double rows_of(const Body& body) {
  if (const auto* softmax = std::get_if<Softmax>(&body)) return static_cast<double>(softmax->rows);
  const auto* norm = std::get_if<Normalization>(&body);
  if (norm && norm->fn != NormKind::batch) return static_cast<double>(norm->rows);
  return 0;
}

bool is_unknown(const Op& op) {
  const auto* other = std::get_if<Other>(&op.body);
  return other && other->bytes <= 0;
}

}  // namespace

TimeEstimate estimate_stream(const TimeContext& context, Bytes bytes, Access access, double rows) {
  const auto& section = context.calibration.stream;
  const StreamConstants& c = section.constants;
  const double transfer =
      transfer_time(c, bytes.value(), efficiency_of(c, access), context.device) *
      idle_sm_factor(c, rows, context.device);
  const double total = c.launch.value() + transfer;
  const bool short_kernel = transfer < c.launch.value();
  TimeEstimate estimate =
      make_estimate(Seconds(total), short_kernel ? Bound::latency : Bound::memory, c.intervals,
                    widening(context, section));
  estimate.launch = c.launch;
  estimate.memory = Seconds(transfer);
  return estimate;
}

std::optional<TimeEstimate> estimate_memory_bound(const TimeContext& context, const Op& op) {
  if (is_unknown(op)) return std::nullopt;
  return estimate_stream(context, count_cost(op).bytes, access_of(op.body), rows_of(op.body));
}

}  // namespace rooftile
