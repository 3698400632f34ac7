// Implicit GEMM on Tensor Cores: no matrix is built in memory, kernels gather the input's patches.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/time/alignment_effect.h"
#include "rooftile/analysis/time/convolution_algorithms.h"

namespace rooftile {
namespace {

// Channels are read in 16-byte groups; a group that is partly empty takes the same steps.
double padded_channels(double dim, double taps, double step) {
  return std::ceil(dim / taps / step) * step * taps;
}

ConvolutionProduct kernel_product(const ConvolutionWork& work, const MathUnit& unit,
                                  double efficiency) {
  const MatrixProduct& product = work.product;
  const double step = to_double(alignment_elements(unit.dtype));
  const double taps = std::max(element_count(work.conv.kernel), 1.0);
  ConvolutionProduct sizes;
  sizes.batch = to_double(product.batch);
  sizes.m = to_double(product.m), sizes.n = to_double(product.n), sizes.k = to_double(product.k);
  double& channels = work.phase == Phase::wgrad ? sizes.m : sizes.k;
  channels = padded_channels(channels, taps, step);
  sizes.k *= product.density;
  sizes.rate = unit.peak * efficiency;
  sizes.may_split = work.phase != Phase::dgrad;
  return sizes;
}

struct Parts {
  ConvolutionKernel kernel;
  double launch, memory, total;
};

Parts parts_at(const TimeContext& context, const ConvolutionWork& work, const MathUnit& unit,
               double alignment) {
  const TensorConvolutionConstants& c = context.calibration.convolution.constants.tensor;
  const double efficiency = alignment * (skips_pixels(work) ? c.kernel.strided_efficiency : 1.0);
  Parts parts;
  parts.kernel = fastest_kernel(kernel_product(work, unit, efficiency), c.kernel, context.running);
  const Seconds launch =
      c.kernel.launch + (work.phase == Phase::dgrad ? c.dgrad_launch : Seconds());
  parts.launch = launch.value();
  parts.memory = (work.bytes / (context.running.dram_bandwidth * c.kernel.dram_efficiency)).value();
  parts.total = parts.launch + overlapped(parts.kernel.compute, parts.memory);
  return parts;
}

Bound bound_of(const Parts& parts) {
  if (parts.total < parts.launch + kLatencyMargin) return Bound::latency;
  if (parts.memory >= parts.kernel.compute) return Bound::memory;
  return parts.kernel.waits_for_latency ? Bound::latency : Bound::math;
}

// Unaligned channels have a range of their own, which the interval of aligned ones does not cover.
void add_alignment_range(TimeEstimate& estimate, double total, double best, double worst) {
  estimate.own_effects.low = std::min(1.0, best / total);
  estimate.own_effects.high = std::max(1.0, worst / total);
  estimate.time.low = estimate.time.low * estimate.own_effects.low;
  estimate.time.high = estimate.time.high * estimate.own_effects.high;
}

}  // namespace

TimeEstimate tensor_core_convolution(const TimeContext& context, const ConvolutionWork& work) {
  const auto& section = context.calibration.convolution;
  const MathUnit unit = math_unit(context.running, work.product.math);
  const Range<double> alignment =
      alignment_factor(context.calibration.alignment.constants, work.product, unit);
  const Parts parts = parts_at(context, work, unit, alignment.expected);
  TimeEstimate estimate = make_estimate(Seconds(parts.total), bound_of(parts),
                                        section.constants.intervals, widening(context, section));
  if (alignment.low < alignment.high) {
    add_alignment_range(estimate, parts.total, parts_at(context, work, unit, alignment.high).total,
                        parts_at(context, work, unit, alignment.low).total);
  }
  estimate.launch = Seconds(parts.launch);
  estimate.compute = Seconds(parts.kernel.compute);
  estimate.memory = Seconds(parts.memory);
  estimate.split_k = parts.kernel.split_k;
  const MatrixProduct& p = work.product;
  estimate.grid = tile_grid(to_double(p.m), to_double(p.n), to_double(p.batch), parts.kernel.tile,
                            std::max(context.device.sms, 1));
  return estimate;
}

}  // namespace rooftile
