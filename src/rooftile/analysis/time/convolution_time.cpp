// Convolutions: which unit and whose kernels compute them, and the layout conversions around them.
#include <algorithm>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/convolution_algorithms.h"
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
  const MathUnit unit = math_unit(context.running, Dtype::fp32);
  const Seconds launch = context.calibration.stream.constants.launch;
  const Seconds memory = cost.bytes / (context.running.dram_bandwidth * c.depthwise_efficiency);
  const Seconds compute = cost.flop / (unit.peak * c.depthwise_math_efficiency);
  TimeEstimate estimate;
  estimate.bound = compute > memory ? Bound::math : Bound::memory;
  set_time(estimate, launch + std::max(compute, memory), c.depthwise_interval,
           widening(context, section));
  estimate.launch = launch;
  estimate.memory = memory;
  estimate.compute = compute;
  return estimate;
}

// Tensor Core kernels of cuDNN want NHWC; an NCHW tensor is converted on the way in and out, each a
// kernel that reads and writes it, unless a slower kernel takes it as it is. The ends surround the
// 8 to 35 % that 28 networks gain with channels_last (PyTorch's memory format tutorial).
constexpr Range<double> kConvertedShare{0.15, 0.5, 0.9};
// A 1x1 kernel of stride 1 on NCHW tensors is a plain product per image; DeepBench's take little
// more than their bytes.
constexpr double kPointwiseShare = 0.3;

bool is_pointwise(const Convolution& conv) {
  return std::ranges::all_of(conv.kernel, [](std::int64_t size) { return size == 1; });
}

// The share's range is far wider than the error of a conversion's own time and covers it.
TimeEstimate conversions(const TimeContext& context, const Op& op, const Convolution& conv) {
  const double input = positions(conv) * static_cast<double>(conv.c);
  const double output = out_positions(conv) * static_cast<double>(conv.k);
  const Bytes in_bytes = 2 * storage(input, op.dtypes.input);
  const Bytes out_bytes = 2 * storage(output, op.dtypes.output);
  const TimeEstimate all = (estimate_stream(context, in_bytes, Access::transpose) +
                            estimate_stream(context, out_bytes, Access::transpose)) *
                           (is_pointwise(conv) ? kPointwiseShare : 1.0);
  TimeEstimate some = all * kConvertedShare.expected;
  const Seconds seconds = all.time.expected;
  some.time = {seconds * kConvertedShare.low, some.time.expected, seconds * kConvertedShare.high};
  some.conversions = some.time;
  return some;
}

// Where no convolution was measured: the generation's products with the real tensors' traffic.
TimeEstimate as_product(const TimeContext& context, const ConvolutionWork& work) {
  const auto& section = context.calibration.convolution;
  const MatrixProduct& product = work.product;
  const Bytes out = storage(static_cast<double>(product.m) * static_cast<double>(product.n) *
                                static_cast<double>(product.batch),
                            product.out.dtype);
  ProductTraits traits;
  traits.math_efficiency = section.constants.math_efficiency;
  traits.out_bytes = std::min(out, work.bytes).value();
  traits.operand_bytes = (work.bytes - std::min(out, work.bytes)).value();
  traits.intervals = &section.constants.intervals;
  traits.widening = widening(context, section);
  return estimate_product(context, product, traits);
}

TimeEstimate estimate_part(const TimeContext& context, const ConvolutionWork& work) {
  if (!math_unit(context.device, work.product.math).tensor_cores) {
    return cuda_core_convolution(context, work);
  }
  return context.calibration.convolution.own ? tensor_core_convolution(context, work)
                                             : as_product(context, work);
}

// Share of the larger tensor's rows that any output meets: a stride above the kernel skips some.
double touched_rows(const Convolution& conv) {
  double share = 1;
  for (std::size_t axis = 0; axis + 1 < conv.stride.size(); ++axis) {
    share *= std::min(1.0, static_cast<double>(conv.kernel[axis]) /
                               static_cast<double>(std::max<std::int64_t>(conv.stride[axis], 1)));
  }
  return share;
}

// Traffic of the phase: the data gradient writes all of its rows, the others read what they meet.
Bytes traffic(const Op& op, const Convolution& conv, Phase phase) {
  const Bytes all = count_cost(op).bytes;
  if (phase == Phase::dgrad || conv.transposed) return all;
  const Bytes input = storage(positions(conv) * static_cast<double>(conv.c), op.dtypes.input);
  return all - (1 - touched_rows(conv)) * input;
}

}  // namespace

ConvolutionWork convolution_work(const Op& op, const Convolution& conv,
                                 const MatrixProduct& product) {
  Phase phase = op.phase;
  if (conv.transposed && phase != Phase::wgrad) {
    phase = phase == Phase::dgrad ? Phase::forward : Phase::dgrad;
  }
  return {op, conv, product, phase, traffic(op, conv, phase)};
}

bool skips_pixels(const ConvolutionWork& work) {
  const auto is_above_one = [](std::int64_t size) { return size > 1; };
  const bool strided = std::ranges::any_of(work.conv.stride, is_above_one);
  const bool spatial = std::ranges::any_of(work.conv.kernel, is_above_one);
  return strided && (spatial || work.phase == Phase::dgrad);
}

TimeEstimate estimate_convolution(const TimeContext& context, const Op& op,
                                  const Convolution& conv) {
  if (is_depthwise_convolution(conv)) return depthwise(context, op);
  MatrixProduct product = matrix_products(op).front();
  product.math = cudnn_math(context.device, product.math);
  const TimeEstimate kernels = estimate_part(context, convolution_work(op, conv, product));
  const bool converts =
      math_unit(context.device, product.math).tensor_cores && conv.layout == TensorLayout::nchw;
  return converts ? kernels + conversions(context, op, conv) : kernels;
}

}  // namespace rooftile
