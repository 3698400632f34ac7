#include "rooftile/analysis/time/gemm_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace rooftile {
namespace {

struct Split {
  int parts;
  double score;  // the library's reluctance: e^(0.03 log2 parts)
};
constexpr std::array<Split, 8> kSplits{{{1, 1.0},
                                        {2, 1.0305},
                                        {3, 1.0487},
                                        {4, 1.0618},
                                        {6, 1.0806},
                                        {8, 1.0942},
                                        {16, 1.1275},
                                        {32, 1.1618}}};
// Splitting k although the tiles already fill the GPU: e^0.2.
constexpr double kNeedlessSplit = 1.2214;
// Shortest part of k that a split leaves.
constexpr double kMinPartOfK = 64;
// k advances in steps of 32 elements.
constexpr double kStepOfK = 32;
// Share of the split's workspace traffic that reaches DRAM.
constexpr double kWorkspaceShare = 0.3;
constexpr double kWorkspaceBytes = 8;  // fp32, written and read

double square(double x) { return x * x; }
double fourth_power(double x) { return square(square(x)); }
double fourth_root(double x) { return std::sqrt(std::sqrt(x)); }

// The share of a working set that stays in L2; a soft threshold.
double warm_share(double bytes, double capacity) {
  const double ratio = bytes / capacity;
  const double cube = ratio * ratio * ratio;
  return 1.0 / (1.0 + cube * cube);
}

double dram_bytes(double bytes, double warm, double l2_speedup) {
  return bytes * ((1.0 - warm) + warm / l2_speedup);
}

double memory_time(const GemmWork& work, const GemmConstants& c, const Device& device) {
  const double capacity = std::max(c.l2_share * device.l2_size.value(), 1.0);
  const double operands_warm = warm_share(c.operand_sets * work.operand_bytes, capacity);
  const double out_warm = warm_share(work.out_bytes, capacity);
  const double traffic = dram_bytes(work.operand_bytes, operands_warm, c.l2_speedup) +
                         dram_bytes(work.out_bytes, out_warm, c.l2_speedup);
  return c.dram_latency.value() + traffic / (c.dram_efficiency * device.dram_bandwidth.value());
}

// Of each part of a split.
double workspace_time(const GemmWork& work, const Device& device) {
  const double bytes = kWorkspaceBytes * work.batch * work.m * work.n;
  return kWorkspaceShare * bytes / (2.0 * device.dram_bandwidth.value());
}

// The rate that power allows falls the longer a kernel runs.
double power_time(const GemmWork& work, const GemmConstants& c) {
  constexpr double kReference = 1e-3, kLeast = 0.1, kMost = 100;  // s; multiples of it
  const double flop = 2.0 * work.batch * work.m * work.n * work.k;
  const double time =
      flop / (work.sustained_efficiency * work.throughput_factor * work.peak.value());
  return time * std::pow(std::clamp(time / kReference, kLeast, kMost), c.sustained_decline);
}

// What the candidates of one tile share.
struct TileTerms {
  const GemmTile* tile;
  double tiles;     // thread blocks without a split
  double per_k;     // seconds one block takes for each element of k
  double overhead;  // prologue and epilogue of a block
  bool latency;     // per_k is mostly latency
};

TileTerms tile_terms(const GemmTile& tile, const GemmWork& work, const GemmConstants& c,
                     const Device& device) {
  const double a = tile.tile.rows, b = tile.tile.cols;
  const double sm_peak = work.peak.value() / std::max(device.sms, 1);
  const double edges = (1 + c.tile_edge_elements / a) * (1 + c.tile_edge_elements / b);
  const double math = 2 * a * b / (c.in_core_efficiency * work.throughput_factor * sm_peak) * edges;
  const double operands = work.element_bytes * (std::min(work.m, a) + std::min(work.n, b)) /
                          (c.operand_port.value() * work.throughput_factor);
  const double latency = c.latency_per_k.value() * work.element_bytes / 2;
  const double rate = fourth_power(math) + fourth_power(operands);
  const double wait = fourth_power(latency);
  const int pair = tile.cluster_rows / tile.tile.rows;
  return {&tile, work.batch * std::ceil(work.m / tile.cluster_rows) * pair * std::ceil(work.n / b),
          fourth_root(rate + wait), c.prologue.value() + c.epilogue.value() * a * b / 16384,
          wait > rate};
}

double quantized_waves(double waves, double sharpness) {
  return sharpness * std::ceil(waves) + (1 - sharpness) * std::max(1.0, waves);
}

// Which kernel the library takes is not known: candidates count by their score to the power -16,
// those beyond the cut-off not at all.
constexpr double kCutOff = 1.3;
double likelihood(double score) { return 1 / square(square(fourth_power(score))); }

// One candidate after the other; keeps the best and the expected time over all.
class Search {
 public:
  Search(const GemmWork& work, const GemmConstants& constants, const Device& device)
      : work_(work), constants_(constants), sms_(std::max(device.sms, 1)) {
    best_.power = power_time(work, constants);
    power_term_ = square(fourth_power(best_.power));
    memory_ = memory_time(work, constants, device);
    workspace_ = workspace_time(work, device);
  }

  void consider_splits(const TileTerms& terms) {
    for (const Split& split : kSplits) {
      if (split.parts > 1 && work_.k < kMinPartOfK * split.parts) break;
      consider(terms, split);
    }
  }

  void consider(const TileTerms& terms, const Split& split) {
    const double waves =
        quantized_waves(terms.tiles * split.parts / sms_, constants_.wave_sharpness);
    const double part_of_k = kStepOfK * std::ceil(work_.k / split.parts / kStepOfK);
    const double compute = waves * (part_of_k * terms.per_k + terms.overhead);
    const double memory = memory_ + (split.parts > 1 ? workspace_ * split.parts : 0);
    const double launch =
        constants_.launch.value() + (split.parts > 1 ? constants_.split_launch.value() : 0);
    const bool needless = split.parts > 1 && terms.tiles > sms_;
    const double reluctance = needless ? split.score * kNeedlessSplit : split.score;
    const double at_least = launch + std::max({compute, memory, best_.power});
    if (at_least * reluctance >= best_score_ * kCutOff) return;
    // The slower of the Tensor Cores and of what power allows them; memory overlaps softly.
    const double math = std::sqrt(square(fourth_power(compute)) + power_term_);
    const double total = launch + fourth_root(math + fourth_power(memory));
    const double score = total * reluctance;
    const double weight = likelihood(score / constants_.launch.value());
    weights_ += weight;
    weighted_times_ += weight * total;
    if (score >= best_score_) return;
    best_score_ = score;
    best_ = {*terms.tile, split.parts, waves, launch, compute,
             memory,      best_.power, total, total,  terms.latency};
  }

  // Parts scaled along with the total.
  GemmParts result() const {
    GemmParts parts = best_;
    parts.total = weighted_times_ / weights_;
    const double scale = parts.total / parts.best;
    for (double* part : {&parts.launch, &parts.compute, &parts.memory, &parts.power}) {
      *part *= scale;
    }
    return parts;
  }

 private:
  const GemmWork& work_;
  const GemmConstants& constants_;
  double sms_;
  double memory_ = 0, workspace_ = 0, power_term_ = 0;
  double best_score_ = std::numeric_limits<double>::infinity();
  double weights_ = 0, weighted_times_ = 0;
  GemmParts best_;
};

// A part with far less power per peak rate than its donor is not limited in proportion. One with
// far more is limited by its cores, which is another term.
constexpr double kMinPowerScale = 0.75;

// GDDR boards that keep ECC bits among the data reach less of their nominal bandwidth: L40S 0.62 to
// 0.87 of it in products of few rows, RTX 4090 0.83 to 0.94.
double dram_efficiency(const GemmConstants& constants, const Device& device) {
  constexpr double kWithoutEcc = 1.2, kMost = 0.94;
  const bool inline_ecc = device.dram_ecc_share.value_or(0) > 0;
  if (inline_ecc == constants.reference_inline_ecc) return constants.dram_efficiency;
  if (inline_ecc) return constants.dram_efficiency / kWithoutEcc;
  return std::max(constants.dram_efficiency,
                  std::min(constants.dram_efficiency * kWithoutEcc, kMost));
}

double power_scale(const GemmConstants& constants, const Device& device) {
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  if (!device.power_limit || peak == device.tensor_core_peak.end()) return 1;
  const double watts_per_flop_rate = device.power_limit->value() / peak->second.value();
  return std::max(watts_per_flop_rate / constants.reference_watts_per_flop_rate, kMinPowerScale);
}

// A donor at its power limit never shows its cores at full clock; a part with power to spare does.
double in_core_efficiency(const GemmConstants& constants, double scale) {
  constexpr double kFullClock = 1.1;  // against the peak at boost clock
  return std::max(constants.in_core_efficiency,
                  std::min(constants.in_core_efficiency * scale, kFullClock));
}

}  // namespace

GemmConstants scale_constants(GemmConstants constants, const Device& device) {
  const double clock = device.boost_clock.value() > 0
                           ? device.boost_clock.value() / constants.reference_clock.value()
                           : 1.0;
  constants.latency_per_k = constants.latency_per_k / clock;
  constants.operand_port = constants.operand_port * clock;
  constants.quantize.row = constants.quantize.row / clock;
  constants.quantize.element = constants.quantize.element / clock;
  const double scale = power_scale(constants, device);
  constants.in_core_efficiency = in_core_efficiency(constants, scale);
  constants.sustained_efficiency *= scale;
  constants.dram_efficiency = dram_efficiency(constants, device);
  return constants;
}

GemmWork gemm_work(const MatrixProduct& product, const MathUnit& unit,
                   const GemmConstants& constants) {
  GemmWork work;
  work.m = static_cast<double>(product.m);
  work.n = static_cast<double>(product.n);
  // Parts of the product that no one computes shorten the sum.
  work.k = std::max(1.0, static_cast<double>(product.k) * product.density);
  work.batch = static_cast<double>(product.batch);
  const double a = size_in_bytes(product.a.dtype), b = size_in_bytes(product.b.dtype);
  work.element_bytes = size_in_bytes(unit.dtype);
  work.operand_bytes = work.batch * work.k * (work.m * a + work.n * b);
  work.out_bytes = work.batch * work.m * work.n * size_in_bytes(product.out.dtype);
  work.peak = unit.peak;
  work.sustained_efficiency = constants.sustained_efficiency;
  return work;
}

GemmParts gemm_parts(const GemmWork& work, const GemmConstants& constants, const Device& device) {
  Search search(work, constants, device);
  for (const TileRule& rule : constants.tile_rules) {
    if (work.m > rule.max_m || work.n > rule.max_n || work.m < rule.min_m || work.k < rule.min_k) {
      continue;
    }
    GemmWork ruled = work;
    ruled.throughput_factor *= rule.efficiency;
    search.consider(tile_terms(rule.tile, ruled, constants, device), kSplits.front());
    return search.result();
  }
  for (const GemmTile& tile : constants.tiles) {
    if (tile.tile.rows >= 128 && tile.tile.rows > 2 * work.m) continue;
    search.consider_splits(tile_terms(tile, work, constants, device));
  }
  return search.result();
}

}  // namespace rooftile
