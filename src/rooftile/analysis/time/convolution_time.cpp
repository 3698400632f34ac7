// Convolutions: implicit GEMM with the traffic of the real tensors; depthwise ones wait for memory.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {
namespace {

double positions(const Convolution& conv) {
  return static_cast<double>(conv.n) * element_count(conv.input);
}
double out_positions(const Convolution& conv) {
  return static_cast<double>(conv.n) * element_count(output_extents(conv));
}

// No sum over channels is left, so libraries use CUDA cores.
bool is_depthwise_convolution(const Convolution& conv) {
  return conv.groups > 1 && conv.groups == conv.c;
}

TimeEstimate depthwise(const TimeContext& context, const Op& op) {
  const auto& section = context.calibration.convolution;
  const ConvolutionConstants& c = section.constants;
  const Cost cost = count_cost(op);
  const MathUnit unit = math_unit(context.device, Dtype::fp32);
  const Seconds launch = context.calibration.stream.constants.launch;
  const Seconds memory = cost.bytes / (context.device.dram_bandwidth * c.depthwise_efficiency);
  const Seconds compute = cost.flop / (unit.peak * c.depthwise_math_efficiency);
  TimeEstimate estimate;
  estimate.bound = compute > memory ? Bound::math : Bound::memory;
  estimate.time = interval_around(launch + std::max(compute, memory), c.depthwise_interval,
                                  widening(context, section));
  estimate.launch = launch;
  estimate.memory = memory;
  estimate.compute = compute;
  return estimate;
}

// Tensor Core kernels of cuDNN want NHWC; an NCHW tensor is converted on the way in and out, each a
// kernel that reads and writes it, unless a slower kernel takes it as it is. The expected share
// gives about the gain published for ResNet-50 on V100, 23.5 % less time with channels_last, and
// the ends surround the 8 to 35 % of 28 networks (both PyTorch's memory format tutorial).
constexpr Range<double> kConvertedShare{0.15, 0.5, 0.9};

// The share's range is far wider than the error of a conversion's own time and covers it.
TimeEstimate conversions(const TimeContext& context, const Op& op, const Convolution& conv) {
  const double input = positions(conv) * static_cast<double>(conv.c);
  const double output = out_positions(conv) * static_cast<double>(conv.k);
  const Bytes in_bytes = 2 * storage(input, op.dtypes.input);
  const Bytes out_bytes = 2 * storage(output, op.dtypes.output);
  const TimeEstimate all = estimate_stream(context, in_bytes, Access::transpose) +
                           estimate_stream(context, out_bytes, Access::transpose);
  TimeEstimate some = all * kConvertedShare.expected;
  const Seconds seconds = all.time.expected;
  some.time = {seconds * kConvertedShare.low, some.time.expected, seconds * kConvertedShare.high};
  some.conversions = some.time;
  return some;
}

// Share of the work of Winograd's 4x4 output tiles that is wanted. Its root, because cuDNN has
// kernels with other tiles too: the times of 3x3 convolutions rise by about that much from 8 to 9,
// 12 to 13 and 16 to 17 output rows.
double winograd_fill(const Convolution& conv) {
  double fill = 1;
  for (const std::int64_t size : output_extents(conv)) {
    if (size > 0) fill *= static_cast<double>(size) / static_cast<double>(round_up(size, 4));
  }
  return std::sqrt(fill);
}

// Winograd's algorithm multiplies less than the formula; cuDNN has it for 3x3 kernels.
double cuda_core_efficiency(const ConvolutionConstants& constants, const Op& op,
                            const Convolution& conv) {
  const auto is_one = [](std::int64_t size) { return size == 1; };
  const bool winograd = conv.kernel == Extents{3, 3} && conv.groups == 1 && !conv.transposed &&
                        op.phase != Phase::wgrad && std::ranges::all_of(conv.stride, is_one) &&
                        std::ranges::all_of(conv.dilation, is_one);
  const double gain = winograd ? constants.winograd_gain * winograd_fill(conv) : 1;
  return constants.fp32_math_efficiency * std::max(gain, 1.0);
}

TimeEstimate implicit_gemm(const TimeContext& context, const Op& op, const Convolution& conv,
                           const MatrixProduct& product, bool tensor_cores) {
  const auto& section = context.calibration.convolution;
  const Cost cost = count_cost(op);
  const Bytes out = storage(static_cast<double>(product.m) * static_cast<double>(product.n) *
                                static_cast<double>(product.batch),
                            product.out.dtype);
  ProductTraits traits;
  traits.math_efficiency = tensor_cores ? section.constants.math_efficiency
                                        : cuda_core_efficiency(section.constants, op, conv);
  traits.out_bytes = std::min(out, cost.bytes).value();
  traits.operand_bytes = (cost.bytes - std::min(out, cost.bytes)).value();
  traits.intervals =
      tensor_cores ? &section.constants.intervals : &section.constants.fp32_intervals;
  traits.widening = widening(context, section);
  return estimate_product(context, product, traits);
}

}  // namespace

TimeEstimate estimate_convolution(const TimeContext& context, const Op& op,
                                  const Convolution& conv) {
  if (is_depthwise_convolution(conv)) return depthwise(context, op);
  TimeEstimate total;
  bool tensor_cores = false;
  bool first = true;
  for (MatrixProduct& product : matrix_products(op)) {
    product.math = cudnn_math(context.device, product.math);
    tensor_cores = math_unit(context.device, product.math).tensor_cores;
    const TimeEstimate part = implicit_gemm(context, op, conv, product, tensor_cores);
    total = first ? part : total + part;
    first = false;
  }
  const bool converts = tensor_cores && conv.layout == TensorLayout::nchw;
  return converts ? total + conversions(context, op, conv) : total;
}

}  // namespace rooftile
