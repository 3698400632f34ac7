#include "rooftile/analysis/time/roofline_floor.h"

#include <algorithm>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {
namespace {

// F(4x4, 3x3), the form of Winograd's algorithm with the fewest: 36 of 144.
constexpr double kLeastWinogradShare = 0.25;

// Bytes that every kernel moves, as far as that is known.
struct CompulsoryBytes {
  const Op& op;
  Bytes all;

  // A stride above the kernel skips pixels.
  Bytes operator()(const Convolution& conv) const {
    for (std::size_t axis = 0; axis < conv.stride.size(); ++axis) {
      if (conv.stride[axis] > conv.kernel[axis]) return {};
    }
    return all;
  }
  // Keys and values may be stored in 8 bits; scores may stay in L2 between two kernels.
  Bytes operator()(const Attention& attention) const {
    const double narrow = size_in_bytes(op.dtypes.weight) / size_in_bytes(op.dtypes.input);
    return attention.fused ? all * std::min(1.0, narrow) : Bytes();
  }
  // Lookups may repeat a row; what a link moves is not DRAM's; and nobody knows what "other" does.
  Bytes operator()(const Embedding&) const { return {}; }
  Bytes operator()(const Collective&) const { return {}; }
  Bytes operator()(const Other&) const { return {}; }
  template <class Body>
  Bytes operator()(const Body&) const {
    return all;
  }
};

// Of the faster of the units that operands of these types may take.
FlopPerSecond highest_rate(const Op& op, const Device& device) {
  const bool by_cudnn = !std::holds_alternative<Gemm>(op.body);
  const auto rate = [&](Dtype dtype) {
    const MathUnit unit = math_unit(device, by_cudnn ? cudnn_math(device, dtype) : dtype);
    return unit.tensor_cores ? unit.peak * clock_headroom(device) : unit.peak;
  };
  return std::max(rate(op.dtypes.input), rate(op.dtypes.weight));
}

}  // namespace

double clock_headroom(const Device& device) {
  if (!device.cuda_core_clock || device.boost_clock <= Hertz()) return 1;
  return std::max(1.0, *device.cuda_core_clock / device.boost_clock);
}

Seconds roofline_floor(Flop flop, FlopPerSecond rate, Bytes bytes, const Device& device) {
  const Seconds math = flop / rate;
  const Bytes beyond_l2 = std::max(Bytes(), bytes - device.l2_size);
  return std::max(math, beyond_l2 / device.dram_bandwidth);
}

Seconds roofline_floor(const Op& op, const TimeEstimate& estimate, const Device& device) {
  const Cost cost = count_cost(op);
  const Bytes bytes = std::visit(CompulsoryBytes{op, cost.bytes}, op.body);
  const double share = !is_matrix_op(op) ? 0 : estimate.winograd ? kLeastWinogradShare : 1;
  return roofline_floor(cost.flop * share, highest_rate(op, device), bytes, device);
}

void add_floor(TimeEstimate& estimate, Seconds floor) {
  if (floor >= estimate.time.expected) return;
  estimate.floor = floor;
  estimate.time.low = std::max(estimate.time.low, floor);
}

}  // namespace rooftile
