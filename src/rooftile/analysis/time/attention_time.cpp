// Attention: one fused kernel, or products with a softmax between.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

// Query-key pairs one head computes, masked blocks left out.
double visible_pairs(const Op& op) {
  const auto products = matrix_products(op);
  const MatrixProduct& scores = products.front();
  return as_double(scores.m) * as_double(scores.n) * scores.density;
}

double heads(const Attention& a) { return as_double(a.batch) * as_double(a.heads); }

// Scores times values and queries times keys, on Tensor Cores or CUDA cores.
double math_seconds(const Op& op, const Attention& a, FlopPerSecond peak) {
  const double flop = 2 * heads(a) * visible_pairs(op) * as_double(a.head_dim + a.value_dim);
  return flop / peak.value();
}

double exponential_seconds(const TimeContext& context, const Op& op, const Attention& a) {
  const Device& device = context.device;
  const double per_second = context.calibration.attention.constants.exponentials_per_clock *
                            std::max(device.sms, 1) * device.boost_clock.value();
  return heads(a) * visible_pairs(op) / std::max(per_second, 1.0);
}

struct L2 {
  double speedup, share;
};

// Bytes that count at DRAM speed when those in L2 come faster.
double dram_equivalent(L2 l2, double bytes, const Device& device) {
  const double capacity = std::max(l2.share * device.l2_size.value(), 1.0);
  const double warm = 1.0 / (1.0 + std::pow(bytes / capacity, 6));
  return bytes * ((1 - warm) + warm / l2.speedup);
}

struct Parts {
  double launch = 0, compute = 0, memory = 0, power = 0, fixed = 0;

  double total() const {
    constexpr double kOverlap = 4;
    return launch + std::pow(std::pow(fixed + compute, kOverlap) + std::pow(memory, kOverlap) +
                                 std::pow(power, kOverlap),
                             1 / kOverlap);
  }
};

// Blocks of query rows over the SMs, each with a fixed cost; the last causal block is the longest,
// which the fill of the last wave stands for.
Parts prefill_parts(const TimeContext& context, const Op& op, const Attention& a,
                    const MathUnit& unit) {
  const AttentionConstants& c = context.calibration.attention.constants;
  const double sms = std::max(context.device.sms, 1);
  const double blocks = heads(a) * std::ceil(as_double(a.query_len) / as_double(c.query_block));
  const double waves = std::max(1.0, blocks / sms);
  // Rows of a short last block are computed all the same.
  const double rows =
      std::ceil(as_double(a.query_len) / c.query_block) * c.query_block / as_double(a.query_len);
  const double math = math_seconds(op, a, unit.peak);
  const double busy = std::min(1.0, blocks / sms);
  Parts parts;
  parts.launch = c.launch.value();
  parts.fixed = waves * c.block_fixed.value();
  parts.compute = (math * rows / c.math_efficiency + exponential_seconds(context, op, a)) / busy;
  parts.power = math / c.sustained_efficiency;
  parts.memory =
      dram_equivalent({c.l2_speedup, c.l2_share}, count_cost(op).bytes.value(), context.device) /
      (c.dram_efficiency * context.device.dram_bandwidth.value());
  return parts;
}

// One query row per head group: the cache streams through; blocks split it to fill the SMs.
Parts decode_parts(const TimeContext& context, const Op& op, const Attention& a,
                   const MathUnit& unit) {
  const AttentionConstants& c = context.calibration.attention.constants;
  const double sms = std::max(context.device.sms, 1);
  const double groups = as_double(a.batch) * as_double(a.kv_heads);
  Parts parts;
  parts.launch = c.decode_launch.value();
  parts.fixed = std::max(1.0, groups / sms) * c.decode_fixed.value();
  // Tensor Core rows hold 16 queries; a group with fewer leaves the rest idle.
  const double queries = as_double(a.query_len) * as_double(a.heads) / as_double(a.kv_heads);
  const double idle_rows = std::max(1.0, 16 / queries);
  parts.compute = math_seconds(op, a, unit.peak) * idle_rows / c.decode_math_efficiency;
  const double bytes = count_cost(op).bytes.value();
  parts.memory = dram_equivalent({c.decode_l2_speedup, c.decode_l2_share}, bytes, context.device) /
                 (c.decode_dram_efficiency * context.device.dram_bandwidth.value());
  return parts;
}

void make_backward(Parts& parts, const AttentionConstants& c) {
  const double work = c.backward_flop / c.backward_efficiency;
  parts.compute *= work;
  parts.power *= work;
  parts.fixed *= 2;
}

Bound bound_of(const Parts& parts) {
  const double math = std::max(parts.compute, parts.power);
  if (parts.launch + parts.fixed > std::max(math, parts.memory)) return Bound::latency;
  return parts.memory >= math ? Bound::memory : Bound::math;
}

TimeEstimate estimate_fused(const TimeContext& context, const Op& op, const Attention& a) {
  const auto& section = context.calibration.attention;
  const MathUnit unit = math_unit(context.device, op.dtypes.input);
  Op forward = op;
  forward.phase = Phase::forward;
  const bool backward = op.phase != Phase::forward;
  // A few query tokens against a cache: the decode kernels.
  constexpr std::int64_t kMostDecodeQueries = 8;
  const bool decode = !backward && a.query_len <= kMostDecodeQueries && a.kv_len > a.query_len;
  Parts parts =
      decode ? decode_parts(context, op, a, unit) : prefill_parts(context, forward, a, unit);
  if (backward) {
    make_backward(parts, section.constants);
    parts.memory *= 2;
  }
  TimeEstimate estimate = make_estimate(Seconds(parts.total()), bound_of(parts),
                                        section.constants.intervals, widening(context, section));
  estimate.launch = Seconds(parts.launch);
  estimate.compute = Seconds(parts.compute);
  estimate.memory = Seconds(parts.memory);
  estimate.power = Seconds(parts.power);
  return estimate;
}

// Products, and a softmax kernel that reads and writes the scores (its gradient reads two).
TimeEstimate estimate_unfused(const TimeContext& context, const Op& op, const Attention& a) {
  const double scores = heads(a) * as_double(a.query_len) * as_double(a.kv_len);
  const double passes = op.phase == Phase::forward ? 2 : 3;
  const double rows = heads(a) * as_double(a.query_len);
  TimeEstimate total =
      estimate_stream(context, passes * storage(scores, op.dtypes.input), Access::rows, rows);
  for (const MatrixProduct& product : matrix_products(op)) {
    total = estimate_product(context, product) + total;
  }
  return total;
}

}  // namespace

TimeEstimate estimate_attention(const TimeContext& context, const Op& op,
                                const Attention& attention) {
  return attention.fused ? estimate_fused(context, op, attention)
                         : estimate_unfused(context, op, attention);
}

}  // namespace rooftile
