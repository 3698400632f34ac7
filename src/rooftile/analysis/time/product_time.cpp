#include "rooftile/analysis/time/product_time.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/time/alignment_effect.h"
#include "rooftile/analysis/time/cuda_core_gemm.h"
#include "rooftile/analysis/time/quantize_time.h"
#include "rooftile/analysis/time/roofline_floor.h"

namespace rooftile {
namespace {

Bound bound_of(const GemmParts& parts, const GemmConstants& constants) {
  if (parts.total < constants.launch.value() + kLatencyMargin) return Bound::latency;
  const double math = std::max(parts.compute, parts.power);
  if (parts.memory >= math) return Bound::memory;
  return parts.waits_for_latency && parts.compute > parts.power ? Bound::latency : Bound::math;
}

MatrixProduct padded(MatrixProduct product) {
  const std::int64_t step = alignment_elements(Dtype::fp8);
  product.n = round_up(product.n, step);
  product.k = round_up(product.k, step);
  return product;
}

GemmWork work_of(const MatrixProduct& product, const MathUnit& unit, const GemmConstants& constants,
                 const ProductTraits& traits) {
  GemmWork work = gemm_work(product, unit, constants);
  work.throughput_factor = traits.math_efficiency;
  work.operand_bytes = traits.operand_bytes.value_or(work.operand_bytes);
  work.out_bytes = traits.out_bytes.value_or(work.out_bytes);
  return work;
}

// Time at a better or worse alignment factor over the expected one.
double effect(GemmWork work, double factor, double expected, const GemmConstants& constants,
              const Device& device) {
  work.throughput_factor *= factor;
  return gemm_parts(work, constants, device).total / expected;
}

// Penalties beyond what the interval of aligned products covers.
void add_own_effects(TimeEstimate& estimate) {
  estimate.time.low = estimate.time.low * estimate.own_effects.low;
  estimate.time.high = estimate.time.high * estimate.own_effects.high;
}

// The kind of product that was measured in bf16: x[m,k] and w[n,k], as a Linear layer has them.
// From Ampere on, fp16 has the same kernels at the same rate.
bool is_sixteen_bit_linear(const MatrixProduct& product, const ProductTraits& traits) {
  return product.batch == 1 && is_plain(product, traits) && product.a.contiguous == product.k &&
         product.b.contiguous == product.k &&
         product.a.contiguous_dim == product.b.contiguous_dim && is_16_bit_float(product.out.dtype);
}

const GemmResidual* residual_of(const TimeContext& context, const MatrixProduct& product,
                                const MathUnit& unit, const ProductTraits& traits) {
  if (traits.tile || !is_sixteen_bit_linear(product, traits)) return nullptr;
  if (unit.dtype == Dtype::fp8) {
    return traits.quantized_from_bytes ? context.residuals.fp8_quantized.get() : nullptr;
  }
  const bool plain = is_16_bit_float(unit.dtype) && product.b.dtype == unit.dtype;
  return plain ? context.residuals.sixteen_bit.get() : nullptr;
}

// The scaling kernel runs before the product.
void add_quantization(const QuantizeParts& before, GemmParts& parts) {
  parts.launch += before.launch;
  parts.compute += before.compute;
  parts.memory += before.memory;
  parts.total += before.total;
}

}  // namespace

bool is_plain(const MatrixProduct& product, const ProductTraits& traits) {
  return !product.implicit && product.density >= 1 && product.part.empty() &&
         traits.math_efficiency == 1 && !traits.operand_bytes;
}

Seconds floor_of(const GemmWork& work, FlopPerSecond rate, const Device& device) {
  return roofline_floor(Flop(2 * work.batch * work.m * work.n * work.k), rate,
                        Bytes(work.operand_bytes + work.out_bytes), device);
}

void scale_parts(GemmParts& parts, double factor) {
  for (double* part : {&parts.launch, &parts.compute, &parts.memory, &parts.power, &parts.total}) {
    *part *= factor;
  }
}

GemmParts product_parts(const GemmWork& work, const ProductTraits& traits,
                        const GemmConstants& constants, const Device& device) {
  GemmParts parts = traits.tile ? gemm_parts(work, *traits.tile, constants, device)
                                : gemm_parts(work, constants, device);
  if (!traits.quantized_from_bytes) return parts;
  add_quantization(quantize_parts(work.m * work.batch, work.k, *traits.quantized_from_bytes,
                                  constants.quantize, device),
                   parts);
  return parts;
}

namespace {

// Measured widths are multiples of 64, or narrower than that. Between two of them nothing is known
// of the library's choice, and the correction is that of the width below: a few more columns never
// take less time than without them.
double measured_width(double n) {
  constexpr double kStep = 64;
  return n > kStep ? kStep * std::floor(n / kStep) : n;
}

void set_width(GemmWork& work, double n) {
  const double a_bytes = work.operand_bytes * work.m / (work.m + work.n);
  work.operand_bytes = a_bytes + (work.operand_bytes - a_bytes) * n / work.n;
  work.out_bytes *= n / work.n;
  work.n = n;
}

// Of the aligned product on the GPU that was measured; `parts_here` are those of `work` on this
// one.
double learned_factor(const GemmResidual& residual, const GemmWork& work, const GemmWork& aligned,
                      const GemmParts& parts_here, const ProductTraits& traits) {
  const double width = measured_width(work.n);
  const bool same = residual.is_reference && work.throughput_factor == aligned.throughput_factor;
  if (same && width == work.n) {
    const auto features = residual_features(work, parts_here, residual.reference.sms);
    return residual.model->factor(features, work);
  }
  GemmWork there = aligned;
  const auto peak = residual.reference.tensor_core_peak.find(
      traits.quantized_from_bytes ? Dtype::fp8 : Dtype::bf16);
  if (peak == residual.reference.tensor_core_peak.end()) return 1;
  there.peak = peak->second;
  there.sustained_efficiency = residual.constants.sustained_efficiency;
  set_width(there, width);
  const GemmParts parts = product_parts(there, traits, residual.constants, residual.reference);
  const auto features = residual_features(there, parts, residual.reference.sms);
  return residual.model->factor(features, there);
}

TimeEstimate estimate_of(const GemmParts& parts, Bound bound, const Intervals& intervals,
                         double widening) {
  TimeEstimate estimate = make_estimate(Seconds(parts.total), bound, intervals, widening);
  estimate.launch = Seconds(parts.launch);
  estimate.compute = Seconds(parts.compute);
  estimate.memory = Seconds(parts.memory);
  estimate.power = Seconds(parts.power);
  estimate.split_k = parts.split_k;
  return estimate;
}

// The weighted geometric mean of all fits' times over that of the first.
template <class TimeWith>
double mean_of_alternatives(const GemmFits& fits, double first, const TimeWith& time_with) {
  double sum = 0, weights = 1;
  for (const auto& [weight, constants] : fits.alternatives) {
    sum += weight * std::log(time_with(constants) / first);
    weights += weight;
  }
  return std::exp(sum / weights);
}

TileGrid grid_of(const MatrixProduct& product, Tile tile, const Device& device) {
  return tile_grid(to_double(product.m), to_double(product.n), to_double(product.batch), tile,
                   std::max(device.sms, 1));
}

// Of the sizes as they are.
TimeEstimate estimate_unpadded(const TimeContext& context, const MatrixProduct& product,
                               const ProductTraits& traits) {
  const MathUnit unit = math_unit(context.device, product.math);
  if (!unit.tensor_cores) return estimate_cuda_core_product(context, product, unit, traits);
  const Calibration& calibration = context.calibration;
  const bool fp8 = unit.dtype == Dtype::fp8;
  const auto& section = fp8 ? calibration.fp8_gemm : calibration.tensor_gemm;
  const GemmFits& fits = fp8 ? context.fp8_gemm : context.tensor_gemm;
  const GemmConstants& constants = fits.constants;
  const Range<double> factor = alignment_factor(calibration.alignment.constants, product, unit);

  const GemmWork aligned = work_of(product, unit, constants, traits);
  GemmWork work = aligned;
  work.throughput_factor *= factor.expected;
  GemmParts parts = product_parts(work, traits, constants, context.device);
  const double modelled = parts.total;
  const Bound bound = bound_of(parts, constants);
  const GemmResidual* residual = residual_of(context, product, unit, traits);
  const double learned = residual ? learned_factor(*residual, work, aligned, parts, traits) : 1;
  scale_parts(parts, learned * mean_of_alternatives(fits, modelled, [&](const auto& other) {
                       GemmWork same = work_of(product, unit, other, traits);
                       same.throughput_factor *= factor.expected;
                       return product_parts(same, traits, other, context.device).total;
                     }));

  // Shapes like these were measured on this GPU.
  const bool measured = residual && residual->widening && factor.low == factor.high &&
                        residual->model->supports(work, modelled * 1e6);
  const Intervals& own = measured ? residual->model->intervals : constants.intervals;
  const double wide = measured ? *residual->widening : widening(context, section);
  TimeEstimate estimate = traits.intervals
                              ? estimate_of(parts, bound, *traits.intervals, traits.widening)
                              : estimate_of(parts, bound, own, wide);
  estimate.kernels = Kernels::tensor_core_gemm;
  estimate.learned = learned;
  estimate.grid = grid_of(product, parts.tile.tile, context.device);
  if (factor.low < factor.high) {
    estimate.own_effects.low =
        std::min(1.0, effect(aligned, factor.high, modelled, constants, context.device));
    estimate.own_effects.high =
        std::max(1.0, effect(aligned, factor.low, modelled, constants, context.device));
    add_own_effects(estimate);
  }
  add_floor(context, estimate, floor_of(work, unit.peak, context.device));
  return estimate * to_double(product.repeats);
}

}  // namespace

TimeEstimate estimate_product(const TimeContext& context, const MatrixProduct& product,
                              const ProductTraits& traits) {
  if (must_pad_fp8(product)) return estimate_unpadded(context, padded(product), traits);
  return estimate_unpadded(context, product, traits);
}

}  // namespace rooftile
