// Kernels that wait for memory: launch, then bytes over what DRAM or L2 delivers.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/roofline_floor.h"

namespace rooftile {
namespace {

// Softmax rows up to this length stay in the registers of a warp (PyTorch's persistent softmax).
constexpr double kShortSoftmax = 1024;
// How sharply the fixed time of rows gives way to their traffic. The blocks of a normalisation wait
// for their whole row twice.
constexpr double kRowOverlap = 3, kNormOverlap = 1.5;

struct Traffic {
  double bytes = 0;
  double rows = 0, cols = 0;  // 0: the work splits anywhere
};

// The share of a working set that stays in L2; a soft threshold.
double warm_share(const StreamConstants& c, double bytes, double exponent, const Device& device) {
  const double capacity = std::max(c.l2_share * device.l2_size.value(), 1.0);
  return 1.0 / (1.0 + std::pow(bytes / capacity, exponent));
}

// Seconds for the bytes when a part of them comes from L2.
double transfer_time(const StreamConstants& c, double bytes, double efficiency,
                     const Device& device) {
  const double warm = warm_share(c, bytes, c.l2_sharpness, device);
  const double effective = bytes * ((1 - warm) + warm / c.l2_speedup);
  return effective / (efficiency * device.dram_bandwidth.value());
}

// Rows are not split over SMs, and one SM draws only so much: few long rows leave SMs idle.
double with_busiest_sm(const StreamConstants& c, double transfer, const Traffic& traffic,
                       const Device& device) {
  if (traffic.rows <= 0) return transfer;
  const double rate = c.sm_bytes_per_clock * std::max(device.boost_clock.value(), 1.0);
  const double rows = std::ceil(traffic.rows / std::max(device.sms, 1));
  return std::max(transfer, rows * traffic.bytes / traffic.rows / rate);
}

// The fixed time of rows and their traffic; the larger counts.
double with_fixed_time(double transfer, double rows, Seconds row, double overlap,
                       const Device& device) {
  const double fixed = std::ceil(rows / std::max(device.sms, 1)) * row.value();
  return std::pow(std::pow(transfer, overlap) + std::pow(fixed, overlap), 1 / overlap);
}

// A row is read again to normalise it, from L2 while the rows in flight fit there.
double row_time(const StreamConstants& c, const RowConstants& row, const Traffic& traffic,
                double overlap, const Device& device) {
  double in_flight = traffic.bytes;
  if (traffic.rows > 0) {
    in_flight = std::min(traffic.rows, c.rows_in_flight) * traffic.bytes / traffic.rows / 2;
  }
  const double cold = 1 - warm_share(c, in_flight, 2, device);
  const double transfer =
      transfer_time(c, traffic.bytes, row.efficiency, device) * (1 + row.reread * cold);
  return row.latency.value() + with_fixed_time(with_busiest_sm(c, transfer, traffic, device),
                                               traffic.rows, row.row, overlap, device);
}

double softmax_time(const StreamConstants& c, const Traffic& traffic, const Device& device) {
  constexpr double kBytesOfRowElement = 8;  // fp32 read and written
  const double cols = traffic.cols > 0 || traffic.rows <= 0
                          ? traffic.cols
                          : traffic.bytes / traffic.rows / kBytesOfRowElement;
  if (cols > kShortSoftmax) return row_time(c, c.softmax, traffic, kRowOverlap, device);
  return transfer_time(c, traffic.bytes, c.short_softmax_efficiency, device);
}

double kernel_time(const StreamConstants& c, Access access, const Traffic& traffic,
                   const Device& device) {
  switch (access) {
    case Access::elementwise:
      break;
    case Access::rows:
      return softmax_time(c, traffic, device);
    case Access::norm:
      // Statistics over all rows, or of the neighbours of each element: the input is read once for
      // them and once to apply them.
      if (traffic.rows <= 0)
        return transfer_time(c, 1.5 * traffic.bytes, c.dram_efficiency, device);
      return row_time(c, c.norm, traffic, kNormOverlap, device);
    case Access::gather:
      return transfer_time(c, traffic.bytes, c.gather_efficiency, device);
    case Access::transpose:
      return transfer_time(c, traffic.bytes, c.transpose_efficiency, device);
  }
  const double transfer = transfer_time(c, traffic.bytes, c.dram_efficiency, device);
  return with_fixed_time(with_busiest_sm(c, transfer, traffic, device), traffic.rows, c.cast_row,
                         kRowOverlap, device);
}

// The optimizer of PyTorch runs over many tensors in few launches; its traffic is plain.
Access access_of(const Body& body) {
  if (std::holds_alternative<Normalization>(body)) return Access::norm;
  if (std::holds_alternative<Softmax>(body)) return Access::rows;
  if (std::holds_alternative<Embedding>(body) || std::holds_alternative<Pooling>(body)) {
    return Access::gather;
  }
  return std::holds_alternative<LayoutConversion>(body) ? Access::transpose : Access::elementwise;
}

// Independent rows, none where the work splits anywhere.
Traffic traffic_of(const Op& op) {
  Traffic traffic{count_cost(op).bytes.value()};
  if (const auto* softmax = std::get_if<Softmax>(&op.body)) {
    traffic.rows = static_cast<double>(softmax->rows);
    traffic.cols = static_cast<double>(softmax->cols);
  }
  if (const auto* cast = std::get_if<Cast>(&op.body)) {
    traffic.rows = static_cast<double>(cast->rows);
  }
  const auto* norm = std::get_if<Normalization>(&op.body);
  const bool has_row_blocks =
      norm && norm->fn != NormKind::batch && norm->fn != NormKind::local_response;
  if (has_row_blocks) {
    traffic.rows = static_cast<double>(norm->rows);
    traffic.cols = static_cast<double>(norm->cols);
  }
  return traffic;
}

const Intervals& intervals_of(const StreamConstants& constants, Access access) {
  if (access == Access::elementwise) return constants.intervals;
  if (access == Access::norm) return constants.norm_intervals;
  return access == Access::rows ? constants.softmax_intervals : constants.assumed_intervals;
}

bool is_unknown(const Op& op) {
  const auto* other = std::get_if<Other>(&op.body);
  return other && other->bytes <= 0;
}

}  // namespace

TimeEstimate estimate_stream(const TimeContext& context, Bytes bytes, Access access, double rows,
                             double cols) {
  const auto& section = context.calibration.stream;
  const StreamConstants& c = section.constants;
  const double kernel = kernel_time(c, access, {bytes.value(), rows, cols}, context.device);
  const bool is_short = kernel < c.launch.value();
  TimeEstimate estimate =
      make_estimate(c.launch + Seconds(kernel), is_short ? Bound::latency : Bound::memory,
                    intervals_of(c, access), widening(context, section));
  estimate.launch = c.launch;
  estimate.memory = Seconds(kernel);
  // Of what is gathered, rows may repeat.
  if (access != Access::gather) add_floor(context, estimate, memory_floor(bytes, context.device));
  return estimate;
}

std::optional<TimeEstimate> estimate_memory_bound(const TimeContext& context, const Op& op) {
  if (is_unknown(op)) return std::nullopt;
  const Traffic traffic = traffic_of(op);
  const Access access = access_of(op.body);
  const TimeEstimate kernel =
      estimate_stream(context, Bytes(traffic.bytes), access, traffic.rows, traffic.cols);
  if (access != Access::norm || op.phase == Phase::forward) return kernel;
  // Scale and shift have gradients of their own, from a second pass over input and output gradient.
  return kernel + estimate_stream(context, Bytes(traffic.bytes * 2 / 3), Access::elementwise);
}

}  // namespace rooftile
