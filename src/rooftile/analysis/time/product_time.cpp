#include "rooftile/analysis/time/product_time.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/time/alignment_effect.h"
#include "rooftile/analysis/time/cuda_core_gemm.h"

namespace rooftile {
namespace {

Bound bound_of(const GemmParts& parts, const GemmConstants& constants) {
  if (parts.total < constants.launch.value() + kLatencyMargin) return Bound::latency;
  const double math = std::max(parts.compute, parts.power);
  if (parts.memory >= math) return Bound::memory;
  return parts.waits_for_latency && parts.compute > parts.power ? Bound::latency : Bound::math;
}

MatrixProduct padded(MatrixProduct product) {
  if (!must_pad_fp8(product)) return product;
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

TimeEstimate estimate_of(const GemmParts& parts, const GemmConstants& constants,
                         const Intervals& intervals, double widening) {
  TimeEstimate estimate =
      make_estimate(Seconds(parts.total), bound_of(parts, constants), intervals, widening);
  estimate.launch = Seconds(parts.launch);
  estimate.compute = Seconds(parts.compute);
  estimate.memory = Seconds(parts.memory);
  estimate.power = Seconds(parts.power);
  estimate.split_k = parts.split_k;
  return estimate;
}

double as_double(std::int64_t value) { return static_cast<double>(value); }

TileGrid grid_of(const MatrixProduct& product, Tile tile, const Device& device) {
  return tile_grid(as_double(product.m), as_double(product.n), as_double(product.batch), tile,
                   std::max(device.sms, 1));
}

}  // namespace

TimeEstimate estimate_product(const TimeContext& context, const MatrixProduct& given,
                              const ProductTraits& traits) {
  const MatrixProduct product = padded(given);
  const MathUnit unit = math_unit(context.device, product.math);
  if (!unit.tensor_cores) return estimate_cuda_core_product(context, product, unit, traits);
  const Calibration& calibration = context.calibration;
  const auto& section = calibration.tensor_gemm;
  const GemmConstants& constants = context.tensor_gemm;
  const Range<double> factor = alignment_factor(calibration.alignment.constants, product, unit);

  GemmWork work = work_of(product, unit, constants, traits);
  const GemmWork aligned = work;
  work.throughput_factor *= factor.expected;
  const GemmParts parts = gemm_parts(work, constants, context.device);
  const Intervals& intervals = traits.intervals ? *traits.intervals : constants.intervals;
  TimeEstimate estimate = estimate_of(
      parts, constants, intervals, traits.intervals ? traits.widening : widening(context, section));
  estimate.grid = grid_of(product, parts.tile.tile, context.device);
  if (factor.low < factor.high) {
    estimate.own_effects.low =
        std::min(1.0, effect(aligned, factor.high, parts.total, constants, context.device));
    estimate.own_effects.high =
        std::max(1.0, effect(aligned, factor.low, parts.total, constants, context.device));
    add_own_effects(estimate);
  }
  return estimate * as_double(product.repeats);
}

TimeEstimate estimate_known_tile(const TimeContext& context, const MatrixProduct& product,
                                 Tile tile) {
  const MathUnit unit = math_unit(context.device, product.math);
  const Calibration& calibration = context.calibration;
  const GemmConstants& gemm = context.tensor_gemm;
  const KnownTileConstants& known = calibration.known_tile.constants;
  const double factor = alignment_factor(calibration.alignment.constants, product, unit).expected;
  const TileGrid grid = grid_of(product, tile, context.device);

  const double sm_peak = unit.peak.value() / std::max(context.device.sms, 1);
  const double edge = unit.tensor_cores ? gemm.tile_edge_elements : 0;
  const double small_tile =
      (1 + edge / tile.rows) * (1 + edge / tile.cols) / ((1 + edge / 256) * (1 + edge / 128));
  const double wave = 2.0 * tile.rows * tile.cols * as_double(product.k) /
                      (known.efficiency * factor * sm_peak) * std::max(1.0, small_tile);
  const double fill = grid.tiles / (grid.waves * std::max(context.device.sms, 1));
  const double compute =
      grid.waves * wave * (1 + known.creep * std::pow(fill, known.creep_exponent));
  const GemmWork work = gemm_work(product, unit, gemm);
  const double memory = (work.operand_bytes + work.out_bytes) /
                        (gemm.dram_efficiency * context.device.dram_bandwidth.value());

  const double total = gemm.launch.value() + std::max(compute, memory);
  TimeEstimate estimate;
  estimate.bound = memory > compute ? Bound::memory : Bound::math;
  estimate.time =
      interval_around(Seconds(total), known.interval, widening(context, calibration.known_tile));
  estimate.launch = gemm.launch;
  estimate.compute = Seconds(compute);
  estimate.memory = Seconds(memory);
  estimate.grid = grid;
  return estimate * as_double(product.repeats);
}

}  // namespace rooftile
