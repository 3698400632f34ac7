#include "rooftile/analysis/time/roofline_floor.h"

#include <algorithm>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {
namespace {

// Of the multiplications, what the fastest algorithm does. On CUDA cores cuDNN has Winograd's for
// 3x3 kernels, F(4x4, 3x3) with 36 of 144, and Fourier transforms for larger ones.
double least_work(const Op& op, const MathUnit& unit) {
  constexpr double kWinograd = 0.25;
  const auto* conv = std::get_if<Convolution>(&op.body);
  if (conv == nullptr || unit.tensor_cores) return is_matrix_op(op) ? 1 : 0;
  std::int64_t widest = 1;
  for (const std::int64_t size : conv->kernel) widest = std::max(widest, size);
  return widest <= 1 ? 1 : widest <= 3 ? kWinograd : 0;
}

// Bytes that every kernel moves, as far as that is known.
struct CompulsoryBytes {
  const Op& op;
  Bytes all;

  // A stride above the kernel skips pixels.
  Bytes operator()(const Convolution& conv) const {
    for (std::size_t axis = 0; axis < std::min(conv.stride.size(), conv.kernel.size()); ++axis) {
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
  // Sectors that the copies of a concatenation share may meet in L2.
  Bytes operator()(const Elementwise&) const {
    return op.streams.walk == Walk::concatenated ? Bytes() : all;
  }
  Bytes operator()(const Collective&) const { return {}; }
  Bytes operator()(const Other&) const { return {}; }
  template <class Body>
  Bytes operator()(const Body&) const {
    return all;
  }
};

// The faster of the units that operands of these types may take.
MathUnit fastest_unit(const Op& op, const Device& device) {
  const bool by_cudnn = !std::holds_alternative<Gemm>(op.body);
  const auto unit = [&](Dtype dtype) {
    return math_unit(device, by_cudnn ? cudnn_math(device, dtype) : dtype);
  };
  const MathUnit of_input = unit(op.dtypes.input), of_weight = unit(op.dtypes.weight);
  return of_input.peak > of_weight.peak ? of_input : of_weight;
}

bool is_measured_here(const Calibration& calibration) {
  return calibration.tensor_gemm.this_gpu || calibration.cuda_gemm.this_gpu ||
         calibration.stream.this_gpu;
}

}  // namespace

Seconds roofline_floor(Flop flop, FlopPerSecond rate, Bytes bytes, const Device& device) {
  return std::max(flop / rate, memory_floor(bytes, device));
}

Seconds memory_floor(Bytes bytes, const Device& device) {
  return std::max(Bytes(), bytes - device.l2_size) / device.dram_bandwidth;
}

Seconds roofline_floor(const Op& op, const Device& device) {
  const Cost cost = count_cost(op);
  const MathUnit unit = fastest_unit(op, device);
  const Bytes bytes = std::visit(CompulsoryBytes{op, cost.bytes}, op.body);
  return roofline_floor(cost.flop * least_work(op, unit), unit.peak, bytes, device);
}

void add_floor(const TimeContext& context, TimeEstimate& estimate, Seconds floor) {
  // On the GPUs that were measured, the fastest GEMMs reach 91 to 93 % of their peaks, and copies
  // as much of the bandwidth.
  constexpr double kAttainable = 0.95;
  Range<Seconds>& time = estimate.time;
  const bool measured = is_measured_here(context.calibration);
  if (measured && floor > time.expected) return;
  estimate.floor = std::max(estimate.floor, floor);
  time.low = std::max(time.low, floor);
  if (measured) return;
  time.expected = std::max(time.expected, floor / kAttainable);
  time.high = std::max(time.high, time.expected);
}

}  // namespace rooftile
