#include "rooftile/analysis/time/gemm_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rooftile {
namespace {

struct Split {
  int parts;
  double score;  // the library's reluctance: e^(0.03 log2 parts)
};
constexpr std::array<Split, 8> kTensorCoreSplits{{{1, 1.0},
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
constexpr double kTensorCoreMinPartOfK = 64;
// k advances in steps of 32 elements.
constexpr double kTensorCoreStepOfK = 32;
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
  constexpr double kStart = 1e-4, kEnd = 0.1;  // s
  const double flop = 2.0 * work.batch * work.m * work.n * work.k;
  const double time =
      flop / (work.sustained_efficiency * work.throughput_factor * work.peak.value());
  return time <= kStart ? time
                        : time * std::pow(std::min(time, kEnd) / kStart, c.sustained_decline);
}

// ceil(size / part), without the library call that older x86 needs for it.
double whole_parts(double size, double part) {
  const double parts = size / part;
  const double floor = static_cast<double>(static_cast<std::int64_t>(parts));
  return floor < parts ? floor + 1 : floor;
}

// What the candidates of one tile share.
struct TensorCoreTileTerms {
  const GemmTile* tile = nullptr;
  double tiles = 0;      // thread blocks without a split
  double per_k = 0;      // seconds one block takes for each element of k
  double overhead = 0;   // prologue and epilogue of a block
  bool latency = false;  // per_k is mostly latency
};

// What the tiles of one product share.
class TileModel {
 public:
  TileModel(const GemmWork& work, const GemmConstants& c, const Device& device)
      : work_(work), c_(c) {
    const double sm_peak = work.peak.value() / std::max(device.sms, 1);
    math_ = 2 / (c.in_core_efficiency * work.throughput_factor * sm_peak);
    operands_ = work.element_bytes / (c.operand_port.value() * work.throughput_factor);
    latency_term_ = fourth_power(c.latency_per_k.value() * work.element_bytes / 2);
    epilogue_ = c.epilogue.value() / (128 * 128);
  }

  TensorCoreTileTerms terms(const GemmTile& tile) const {
    const double a = tile.tile.rows, b = tile.tile.cols;
    const double math = math_ * (a + c_.tile_edge_elements) * (b + c_.tile_edge_elements);
    const double operands = operands_ * (std::min(work_.m, a) + std::min(work_.n, b));
    const double rate = fourth_power(math) + fourth_power(operands);
    const int pair = tile.cluster_rows / tile.tile.rows;
    return {&tile,
            work_.batch * whole_parts(work_.m, tile.cluster_rows) * pair * whole_parts(work_.n, b),
            fourth_root(rate + latency_term_), c_.prologue.value() + epilogue_ * a * b,
            latency_term_ > rate};
  }

 private:
  const GemmWork& work_;
  const GemmConstants& c_;
  double math_, operands_, latency_term_, epilogue_;
};

// Which kernel the library takes is not known: candidates count by their score to the power -16,
// those beyond the cut-off not at all.
constexpr double kCutOff = 1.22;
double likelihood(double score) { return 1 / square(square(fourth_power(score))); }

// Share of a sum below which a term is left out.
constexpr double kNegligible = 1e-4;

// Splitting k helps to fill the GPU; nobody does it where tiles fill it this often.
constexpr double kMostSplitWaves = 4;

// One candidate after the other; keeps the best and the expected time over all.
class Search {
 public:
  Search(const GemmWork& work, const GemmConstants& constants, const Device& device)
      : constants_(constants),
        sms_(std::max(device.sms, 1)),
        per_sm_(1 / sms_),
        per_launch_(1 / constants.launch.value()) {
    power_ = power_time(work, constants);
    power_term_ = square(fourth_power(power_));
    const double memory = memory_time(work, constants, device);
    const double workspace = workspace_time(work, device);
    for (const Split& split : kTensorCoreSplits) {
      const bool splits = split.parts > 1;
      if (splits && work.k < kTensorCoreMinPartOfK * split.parts) break;
      terms_[splits_++] = {
          split.parts, split.score,
          kTensorCoreStepOfK * std::ceil(work.k / split.parts / kTensorCoreStepOfK),
          memory + (splits ? workspace * split.parts : 0),
          constants.launch.value() + (splits ? constants.split_launch.value() : 0)};
    }
  }

  void consider_splits(const TensorCoreTileTerms& tile) {
    const std::size_t last = tile.tiles > kMostSplitWaves * sms_ ? 1 : splits_;
    for (std::size_t i = 0; i < last; ++i) {
      const bool fits = consider(tile, i);
      // More parts of k only make more waves of the same work.
      if (!fits && tile.tiles * terms_[i].parts >= 2 * sms_) return;
    }
  }

  // False where the candidate is too slow to count.
  bool consider(const TensorCoreTileTerms& tile, std::size_t i) {
    const SplitTerms& split = terms_[i];
    const double waves = quantized_waves(tile.tiles * split.parts);
    const double compute = waves * (split.part_of_k * tile.per_k + tile.overhead);
    const bool needless = i > 0 && tile.tiles > sms_;
    const double reluctance = needless ? split.score * kNeedlessSplit : split.score;
    const double limit = cut_off_ / reluctance - split.launch;
    if (power_ >= limit || compute >= limit) return false;
    const double compute_term = fourth_power(compute), memory_term = fourth_power(split.memory);
    if (compute_term + memory_term >= fourth_power(limit)) return false;
    // The slower of the Tensor Cores and of what power allows them; memory overlaps softly.
    const double math_term = square(compute_term);
    const double math =
        power_term_ < kNegligible * math_term ? compute_term : std::sqrt(math_term + power_term_);
    const double total = split.launch + fourth_root(math + memory_term);
    const double score = total * reluctance;
    const double weight = likelihood(score * per_launch_);
    weights_ += weight;
    weighted_times_ += weight * total;
    if (score >= best_score_) return true;
    best_score_ = score;
    cut_off_ = score * kCutOff;
    best_tile_ = tile;
    best_split_ = i;
    best_compute_ = compute;
    best_total_ = total;
    return true;
  }

  // Parts scaled along with the total.
  GemmParts result() const {
    const SplitTerms& split = terms_[best_split_];
    const double total = weighted_times_ / weights_;
    const double scale = total / best_total_;
    GemmParts parts;
    parts.tile = *best_tile_.tile;
    parts.split_k = split.parts;
    parts.waves = quantized_waves(best_tile_.tiles * split.parts);
    parts.launch = split.launch * scale;
    parts.compute = best_compute_ * scale;
    parts.memory = split.memory * scale;
    parts.power = power_ * scale;
    parts.best = best_total_;
    parts.total = total;
    parts.waits_for_latency = best_tile_.latency;
    return parts;
  }

 private:
  // What the candidates of one split share.
  struct SplitTerms {
    int parts = 1;
    double score = 1, part_of_k = 0, memory = 0, launch = 0;
  };

  static constexpr double kManyWaves = 1e12;  // no rounding matters
  // Whole waves as far as the library's scheduling is that sharp.
  double quantized_waves(double blocks) const {
    const double waves = blocks * per_sm_;
    if (waves > kManyWaves) return waves;
    double whole = static_cast<double>(static_cast<std::int64_t>(waves));
    if (whole * sms_ < blocks) ++whole;
    return constants_.wave_sharpness * whole +
           (1 - constants_.wave_sharpness) * std::max(1.0, waves);
  }

  const GemmConstants& constants_;
  double sms_, per_sm_, per_launch_;
  std::array<SplitTerms, kTensorCoreSplits.size()> terms_;
  std::size_t splits_ = 0;
  double power_ = 0, power_term_ = 0;
  double best_score_ = std::numeric_limits<double>::infinity(), cut_off_ = best_score_;
  double weights_ = 0, weighted_times_ = 0;
  TensorCoreTileTerms best_tile_{};
  std::size_t best_split_ = 0;
  double best_compute_ = 0, best_total_ = 0;
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

// What small tiles lose goes into feeding the Tensor Cores, which those of a lower rate a clock
// (GeForce, Volta beside Ampere) wait for as much less.
double tile_edge(const GemmConstants& constants, const Device& device) {
  const auto rate = flop_per_clock_and_sm(device);
  return constants.tile_edge_elements *
         (rate ? std::min(*rate / constants.reference_flop_per_clock, 1.0) : 1.0);
}

}  // namespace

std::optional<double> flop_per_clock_and_sm(const Device& device) {
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  const double clocks = device.boost_clock.value() * device.sms;
  if (peak == device.tensor_core_peak.end() || !(clocks > 0)) return std::nullopt;
  return peak->second.value() / clocks;
}

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
  constants.tile_edge_elements = tile_edge(constants, device);
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
    search.consider(TileModel(ruled, constants, device).terms(rule.tile), 0);
    return search.result();
  }
  const TileModel tiles(work, constants, device);
  for (const GemmTile& tile : constants.tiles) {
    if (tile.tile.rows >= 128 && tile.tile.rows > 2 * work.m) continue;
    search.consider_splits(tiles.terms(tile));
  }
  return search.result();
}

}  // namespace rooftile
