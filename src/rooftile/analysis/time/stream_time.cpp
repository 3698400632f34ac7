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
// Few sums over more elements than that wait for their blocks: they do not fill the GPU.
constexpr std::int64_t kLongSum = 256, kFewSumsOfSm = 4;

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

// The limits of ways to walk; none where nothing but bytes count.
const WalkConstants* walk_of_sum(const StreamConstants& c, const Op& op, const Reduction& sum,
                                 const Device& device) {
  constexpr std::int64_t kFewElements = 128;  // 4 and 49 were measured
  if (sum.outputs < 1) return nullptr;
  const bool is_few = sum.outputs < kFewSumsOfSm * device.sms;
  if (is_few && sum.elements / sum.outputs > kLongSum) return &c.whole_sums;
  // In 64 bits integers are added one by one, whatever the order.
  const bool is_wide = op.dtypes.output == Dtype::int64 && op.dtypes.input != Dtype::int64;
  if (op.streams.walk == Walk::strided || is_wide) return &c.column_sums;
  if (op.streams.walk == Walk::contiguous) return &c.row_sums;
  return sum.elements / sum.outputs < kFewElements ? &c.short_sums : &c.row_sums;
}

const WalkConstants* walk_of_softmax(const StreamConstants& c, const Op& op,
                                     const Softmax& softmax) {
  constexpr std::int64_t kVectorBytes = 16;
  if (softmax.cols <= static_cast<std::int64_t>(kShortSoftmax)) return &c.short_softmax;
  const auto row_bytes = storage(to_double(softmax.cols), op.dtypes.input).value();
  const bool is_aligned = static_cast<std::int64_t>(row_bytes) % kVectorBytes == 0;
  return is_aligned ? nullptr : &c.unaligned_softmax;
}

const WalkConstants* walk_constants(const StreamConstants& c, Walk walk) {
  switch (walk) {
    case Walk::usual:
    case Walk::contiguous:
      return nullptr;
    case Walk::converting:
      return &c.converting;
    case Walk::strided:
      return &c.strided;
    case Walk::transposed:
      return &c.transposed;
    case Walk::reordered:
      return &c.reordered;
    case Walk::gathered:
      return &c.gathered;
    case Walk::concatenated:
      return &c.concatenated;
    case Walk::scanned:
      return &c.scanned;
    case Walk::sorted:
      return &c.sorted;
  }
  return nullptr;
}

const WalkConstants* walk_of(const StreamConstants& c, const Op& op, const Device& device) {
  if (const auto* sum = std::get_if<Reduction>(&op.body)) return walk_of_sum(c, op, *sum, device);
  if (const auto* softmax = std::get_if<Softmax>(&op.body)) {
    return walk_of_softmax(c, op, *softmax);
  }
  const auto* cast = std::get_if<Cast>(&op.body);
  const bool converts = cast != nullptr && cast->rows == 0 && op.dtypes.input != op.dtypes.output;
  if (converts && op.streams.walk == Walk::usual) return &c.converting;
  return walk_constants(c, op.streams.walk);
}

struct CountElements {
  double operator()(const Elementwise& body) const { return to_double(body.elements); }
  double operator()(const Reduction& body) const { return to_double(body.elements); }
  double operator()(const Cast& body) const { return to_double(body.elements); }
  double operator()(const LayoutConversion& body) const { return to_double(body.elements); }
  double operator()(const Softmax& body) const {
    return to_double(body.rows) * to_double(body.cols);
  }
  template <class Body>
  double operator()(const Body&) const {
    return 0;
  }
};

// What the end of a sum takes, in elements that are added: sums of one element each, 58.7 million
// of them, took 170 us on B200 (pytorch/ao, BSD-3-Clause).
constexpr double kElementsOfOutput = 2;

// Offsets are computed for each tensor, so where several are read whole an element counts more.
double elements_of(const Op& op) {
  if (op.streams.elements > 0) return to_double(op.streams.elements);
  const double elements = std::visit(CountElements{}, op.body);
  const auto* sum = std::get_if<Reduction>(&op.body);
  if (sum != nullptr && op.streams.walk == Walk::contiguous) {
    return elements + kElementsOfOutput * to_double(sum->outputs);
  }
  const auto* elementwise = std::get_if<Elementwise>(&op.body);
  const bool has_offsets = op.streams.walk == Walk::strided ||
                           op.streams.walk == Walk::transposed ||
                           op.streams.walk == Walk::reordered;
  if (elementwise == nullptr || !has_offsets) return elements;
  return elements * (1 + std::max(1.0, to_double(elementwise->inputs))) / 2;
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

TimeEstimate streaming_estimate(const TimeContext& context, double kernel,
                                const Intervals& intervals) {
  const auto& section = context.calibration.stream;
  const Seconds launch = section.constants.launch;
  const bool is_short = kernel < launch.value();
  TimeEstimate estimate =
      make_estimate(launch + Seconds(kernel), is_short ? Bound::latency : Bound::memory, intervals,
                    widening(context, section));
  estimate.launch = launch;
  estimate.memory = Seconds(kernel);
  return estimate;
}

// Of what is gathered, rows may repeat.
TimeEstimate above_floor(const TimeContext& context, TimeEstimate estimate, Access access,
                         Bytes bytes) {
  if (access != Access::gather) add_floor(context, estimate, memory_floor(bytes, context.device));
  return estimate;
}

// The traffic, or what the SMs need to find its elements; the longer counts.
TimeEstimate walking_estimate(const TimeContext& context, const Op& op, const Traffic& traffic,
                              Access access, const WalkConstants& walk) {
  const Device& device = context.device;
  const double sms = std::max(device.sms, 1), clock = std::max(device.boost_clock.value(), 1.0);
  const double issue = elements_of(op) / (walk.elements_per_clock * sms * clock);
  const StreamConstants& c = context.calibration.stream.constants;
  const double transfer = kernel_time(c, access, traffic, device);
  Intervals intervals{walk.interval, walk.interval, walk.interval};
  intervals.latency = {std::min(walk.interval.low, c.intervals.latency.low),
                       std::max(walk.interval.high, c.intervals.latency.high)};
  if (access == Access::rows && transfer > issue) intervals = c.softmax_intervals;
  const double kernel = std::max(transfer, issue) + walk.latency.value();
  return above_floor(context, streaming_estimate(context, kernel, intervals), access,
                     Bytes(traffic.bytes));
}

// A row of a layer norm that no load of four elements fits: PyTorch then takes a kernel for the
// statistics and another one, both with plain loads. Factor on the time of a row, from rows of 17
// and 125 elements on A100 (harryjmoss/particle_transformer, facebookresearch/HTA, both MIT).
constexpr double kUnalignedRow = 4;

bool is_unaligned_norm(const Op& op) {
  constexpr std::int64_t kVector = 4;
  const auto* norm = std::get_if<Normalization>(&op.body);
  return norm != nullptr && norm->fn == NormKind::layer && norm->cols % kVector != 0;
}

// Scale and shift have gradients of their own, from a second pass over input and output gradient.
// The blocks of a layer norm take some columns and go down all rows, 32 at a time; tall inputs are
// split. The time of a step is that of 2,048 rows of 125 to 742 elements in traces of
// facebookresearch/HTA (MIT). cuDNN's batch norm does both in one kernel; its traffic is that of
// ResNet-50 on V100 in the traces of pytorch/kineto (BSD-3-Clause).
TimeEstimate scale_gradients(const TimeContext& context, const Traffic& traffic) {
  constexpr double kStep = 3e-7, kRowsOfStep = 32, kMostRows = 4096;
  constexpr double kShareOfBatchNorm = 0.5;
  const StreamConstants& c = context.calibration.stream.constants;
  const bool has_rows = traffic.rows > 0;
  const double bytes = traffic.bytes * (has_rows ? 2.0 / 3 : kShareOfBatchNorm);
  const double steps = kStep * std::min(traffic.rows, kMostRows) / kRowsOfStep;
  const double transfer = transfer_time(c, bytes, c.dram_efficiency, context.device);
  return streaming_estimate(context, std::max(transfer, steps), c.norm_intervals);
}

// Averages: a thread goes through its window one load after the other, up to sizes that are summed
// as rows. The clocks of a load are those of 4x4 windows in a public trace of ResNet-50 on T4,
// where few threads hide nothing: 21.9 us.
TimeEstimate pooling_estimate(const TimeContext& context, const Traffic& traffic,
                              const Pooling& pool) {
  constexpr double kClocksOfLoad = 1500, kLargestWindow = 16;
  const StreamConstants& c = context.calibration.stream.constants;
  const double window = element_count(pool.kernel);
  const bool loops = pool.fn == PoolKind::average && window <= kLargestWindow;
  const double clock = std::max(context.device.boost_clock.value(), 1.0);
  const double steps = loops ? window * kClocksOfLoad / clock : 0;
  const double transfer = transfer_time(c, traffic.bytes, c.gather_efficiency, context.device);
  return streaming_estimate(context, std::max(transfer, steps), c.assumed_intervals);
}

}  // namespace

TimeEstimate estimate_stream(const TimeContext& context, Bytes bytes, Access access, double rows,
                             double cols) {
  const StreamConstants& c = context.calibration.stream.constants;
  const double kernel = kernel_time(c, access, {bytes.value(), rows, cols}, context.device);
  return above_floor(context, streaming_estimate(context, kernel, intervals_of(c, access)), access,
                     bytes);
}

std::optional<TimeEstimate> estimate_memory_bound(const TimeContext& context, const Op& op) {
  if (is_unknown(op)) return std::nullopt;
  const Traffic traffic = traffic_of(op);
  const StreamConstants& constants = context.calibration.stream.constants;
  const WalkConstants* const walk = walk_of(constants, op, context.device);
  const Access access = op.streams.walk == Walk::usual ? access_of(op.body) : Access::elementwise;
  if (walk) return walking_estimate(context, op, traffic, access, *walk);
  if (const auto* pool = std::get_if<Pooling>(&op.body)) {
    return pooling_estimate(context, traffic, *pool);
  }
  const double blocks = traffic.rows * (is_unaligned_norm(op) ? kUnalignedRow : 1);
  const TimeEstimate kernel =
      estimate_stream(context, Bytes(traffic.bytes), access, blocks, traffic.cols);
  if (access != Access::norm || op.phase == Phase::forward) return kernel;
  return kernel + scale_gradients(context, traffic);
}

}  // namespace rooftile
