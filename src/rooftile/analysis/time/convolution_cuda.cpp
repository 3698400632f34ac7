// FP32 convolutions on CUDA cores: the cheapest of three algorithms, as cuDNN's heuristics choose.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/time/convolution_algorithms.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {
namespace {

// One algorithm's time in seconds; memory and compute may overlap.
struct Candidate {
  double launch = 0, compute = 0, memory = 0, total = 0;
  bool waits_for_latency = false;
  bool winograd = false;
  ConvolutionKernel kernel;  // without a tile for Winograd's algorithm
};

// Launches after the first start while the kernel before runs.
constexpr double kLaterLaunch = 2.5e-6;

struct Cuda {
  const ConvolutionConstants& constants;
  const Device& device;
  FlopPerSecond peak;

  double dram_time(double bytes) const {
    return bytes / (constants.cuda.dram_efficiency * device.dram_bandwidth.value());
  }
};

Candidate implicit_gemm(const Cuda& cuda, const ConvolutionWork& work) {
  const MatrixProduct& product = work.product;
  ConvolutionProduct sizes;
  sizes.batch = to_double(product.batch);
  sizes.m = to_double(product.m), sizes.n = to_double(product.n);
  sizes.k = std::max(1.0, to_double(product.k) * product.density);
  const bool strided = work.phase == Phase::dgrad && skips_pixels(work);
  sizes.rate = cuda.peak * (strided ? cuda.constants.cuda.strided_efficiency : 1.0);
  sizes.may_split = work.phase == Phase::wgrad;
  Candidate candidate;
  candidate.kernel = fastest_kernel(sizes, cuda.constants.cuda, cuda.device);
  candidate.launch = cuda.constants.cuda.launch.value();
  candidate.compute = candidate.kernel.compute;
  candidate.memory = cuda.dram_time(work.bytes.value());
  candidate.waits_for_latency = candidate.kernel.waits_for_latency;
  candidate.total = candidate.launch + overlapped(candidate.compute, candidate.memory);
  return candidate;
}

// Sizes of a 3x3 convolution as Winograd's algorithm sees them; the data gradient reads the output.
struct WinogradSizes {
  double images, rows, cols;  // of the result
  double from, to;            // channels read and written
};

WinogradSizes winograd_sizes(const ConvolutionWork& work) {
  const Convolution& conv = work.conv;
  const Extents out = output_extents(conv);
  const double c = to_double(conv.c), k = to_double(conv.k), n = to_double(conv.n);
  if (work.phase == Phase::dgrad) {
    return {n, to_double(conv.input[0]), to_double(conv.input[1]), k, c};
  }
  return {n, to_double(out[0]), to_double(out[1]), c, k};
}

// Double precision and integers keep to the formula.
bool is_float(Dtype dtype) {
  return dtype == Dtype::fp32 || dtype == Dtype::fp16 || dtype == Dtype::bf16 ||
         dtype == Dtype::tf32;
}

// cuDNN's non-fused form takes kernels of 3x3 and 5x5 (cudnnConvolutionFwdAlgo_t), the fused one
// 3x3.
bool takes_winograd(const ConvolutionWork& work) {
  const Convolution& conv = work.conv;
  const auto is_one = [](std::int64_t size) { return size == 1; };
  const bool size = conv.kernel == Extents{3, 3} || conv.kernel == Extents{5, 5};
  return is_float(work.product.math) && size && conv.groups == 1 && !conv.transposed &&
         std::ranges::all_of(conv.stride, is_one) && std::ranges::all_of(conv.dilation, is_one);
}

// F(2x2, 3x3) in one kernel after the transform of the weights: 16 multiplications where the
// formula has 36. A block computes 32 channels of 8x16 outputs, or of 4x16 in two images.
Candidate fused_winograd(const Cuda& cuda, const ConvolutionWork& work) {
  constexpr double kBlockOutputs = 128, kBlockChannels = 32, kStepOfChannels = 8;
  constexpr double kMultiplications = 4;  // per output and channel
  const WinogradConstants& c = cuda.constants.winograd;
  const WinogradSizes s = winograd_sizes(work);
  const double across = std::ceil(s.cols / 16) * std::ceil(s.to / kBlockChannels);
  const double blocks = across * std::min(s.images * std::ceil(s.rows / 8),
                                          std::ceil(s.images / 2) * std::ceil(s.rows / 4));
  const double sm_rate = c.fused_efficiency * cuda.peak.value() / std::max(cuda.device.sms, 1);
  const double channels = kStepOfChannels * std::ceil(s.from / kStepOfChannels);
  const double block = 2 * kMultiplications * kBlockOutputs * kBlockChannels * channels / sm_rate +
                       c.fused_overhead.value() * clock_ratio(cuda.constants.cuda, cuda.device);
  Candidate candidate;
  candidate.winograd = true;
  candidate.launch = cuda.constants.cuda.launch.value() + kLaterLaunch;
  candidate.compute = wave_count(blocks, cuda.constants.cuda.wave_sharpness, cuda.device) * block;
  candidate.memory = cuda.dram_time(work.bytes.value());
  candidate.total = candidate.launch + overlapped(candidate.compute, candidate.memory);
  return candidate;
}

// F(4x4, 3x3) in four kernels: both operands are transformed into 6x6 matrices, multiplied, and the
// result is transformed back. For 5x5 kernels such matrices give F(2x2, 5x5).
Candidate separate_winograd(const Cuda& cuda, const ConvolutionWork& work) {
  constexpr double kEdge = 6, kMatrices = kEdge * kEdge, kElementBytes = 4;
  const double tile = kEdge + 1 - to_double(work.conv.kernel.front());
  const double taps = element_count(work.conv.kernel);
  const WinogradConstants& c = cuda.constants.winograd;
  const WinogradSizes s = winograd_sizes(work);
  const double tiles = s.images * std::ceil(s.rows / tile) * std::ceil(s.cols / tile);
  const bool weights = work.phase == Phase::wgrad;
  ConvolutionProduct product;
  product.batch = kMatrices;
  product.m = weights ? s.from : tiles, product.n = s.to, product.k = weights ? tiles : s.from;
  product.rate = cuda.peak * (c.efficiency / cuda.constants.cuda.in_core_efficiency);
  product.may_split = weights;
  const double filters = kElementBytes * s.from * s.to;
  const double transformed = kElementBytes * kMatrices * tiles * (s.from + s.to);
  const double tensors = work.bytes.value() - taps * filters;  // written once and read once
  const double traffic = c.transform_traffic * (tensors + 2 * transformed) +
                         c.filter_transform_traffic * (taps + 2 * kMatrices) * filters;
  const ConvolutionKernel kernel = fastest_kernel(product, cuda.constants.cuda, cuda.device);
  Candidate candidate;
  candidate.winograd = true;
  candidate.launch = cuda.constants.cuda.launch.value() + 3 * kLaterLaunch;
  candidate.compute = kernel.compute;
  candidate.memory = cuda.dram_time(traffic);
  candidate.waits_for_latency = kernel.waits_for_latency;
  candidate.total = candidate.launch + candidate.compute + candidate.memory;
  return candidate;
}

Candidate cheapest(const Cuda& cuda, const ConvolutionWork& work) {
  Candidate best = implicit_gemm(cuda, work);
  if (!takes_winograd(work)) return best;
  const auto consider = [&](const Candidate& other) {
    if (other.total < best.total) best = other;
  };
  consider(separate_winograd(cuda, work));
  const bool fused = work.phase != Phase::wgrad && work.conv.kernel.front() == 3;
  if (fused) consider(fused_winograd(cuda, work));
  return best;
}

// Those that were measured on each generation.
const Intervals& intervals_of(const ConvolutionConstants& constants, const ConvolutionWork& work) {
  const bool measured =
      takes_winograd(work) && work.phase == Phase::forward && work.conv.kernel == Extents{3, 3};
  return measured ? constants.fp32_intervals : constants.fp32_other_intervals;
}

Bound bound_of(const Candidate& candidate) {
  if (candidate.total < candidate.launch + kLatencyMargin) return Bound::latency;
  if (candidate.memory >= candidate.compute) return Bound::memory;
  return candidate.waits_for_latency ? Bound::latency : Bound::math;
}

}  // namespace

TimeEstimate cuda_core_convolution(const TimeContext& context, const ConvolutionWork& work) {
  const auto& section = context.calibration.convolution;
  const MathUnit unit = math_unit(context.running, work.product.math);
  const Cuda cuda{section.constants, context.running, unit.peak};
  const Candidate best = context.takes_winograd ? cheapest(cuda, work) : implicit_gemm(cuda, work);
  TimeEstimate estimate =
      make_estimate(Seconds(best.total), bound_of(best), intervals_of(section.constants, work),
                    widening(context, section));
  estimate.launch = Seconds(best.launch);
  estimate.compute = Seconds(best.compute);
  estimate.memory = Seconds(best.memory);
  estimate.winograd = best.winograd;
  if (best.kernel.tile.rows > 0) {
    const MatrixProduct& p = work.product;
    estimate.split_k = best.kernel.split_k;
    estimate.grid = tile_grid(to_double(p.m), to_double(p.n), to_double(p.batch), best.kernel.tile,
                              std::max(context.device.sms, 1));
  }
  return estimate;
}

}  // namespace rooftile
