#include "rooftile/analysis/time/gemm_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

// Compiled a second time for processors whose instructions take four numbers; which one runs is
// decided where the program starts. Both give the same values.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define ROOFTILE_FOR_WIDER_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define ROOFTILE_FOR_WIDER_VECTORS
#endif

namespace rooftile {
namespace {

constexpr std::size_t kSplits = 8;
constexpr std::array<double, kSplits> kPartsOfK{1, 2, 3, 4, 6, 8, 16, 32};
// The library's reluctance to take so many: e^(0.03 log2 parts).
constexpr std::array<double, kSplits> kReluctance{1,      1.0305, 1.0487, 1.0618,
                                                  1.0806, 1.0942, 1.1275, 1.1618};
// Splitting k although the tiles already fill the GPU: e^0.2.
constexpr double kNeedlessSplit = 1.2214;
// Splitting k helps to fill the GPU; nobody does it where tiles fill it this often.
constexpr double kMostSplitWaves = 4;
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

// Of x >= 0; library calls for it keep loops from going over several at once.
double nearest_whole(double x) {
  constexpr double kNoFraction = 4503599627370496;  // 2^52; doubles from here on are whole
  return x + kNoFraction - kNoFraction;
}

// The parts of a size that cover it; `per_unit` is the inverse of a part's.
double whole_parts(double size, double part, double per_unit) {
  const double nearest = nearest_whole(size * per_unit);
  return nearest * part < size ? nearest + 1 : nearest;
}

// Which kernel the library takes is not known: candidates count by their score, which is time times
// reluctance, to the power -16.
double likelihood(double score) { return 1 / square(square(fourth_power(score))); }

// Splits that score this much worse than the best whole tile do not count at all.
constexpr double kCutOff = 1.22;

// The slower of the Tensor Cores and of what power allows them; memory overlaps softly.
double overlapped(double compute, double power_term, double memory_term) {
  const double math = std::sqrt(square(fourth_power(compute)) + power_term);
  return fourth_root(math + memory_term);
}

// All kernels that the library may choose for one product. Its loops go over arrays with few
// branches, so that the processor works on several at once.
class Candidates {
 public:
  // Of `tiles` from the first given on.
  Candidates(const GemmTiles& tiles, std::size_t first, const GemmWork& work,
             const GemmConstants& constants, const Device& device)
      : work_(work),
        constants_(constants),
        table_(tiles),
        first_(first),
        tiles_(tiles.size() - first),
        sms_(std::max(device.sms, 1)),
        per_sm_(1 / sms_),
        memory_(memory_time(work, constants, device)),
        workspace_(workspace_time(work, device)),
        power_(power_time(work, constants)),
        power_term_(square(fourth_power(power_))),
        latency_term_(fourth_power(constants.latency_per_k.value() * work.element_bytes / 2)) {}

  // `efficiency` of these tiles' kernels inside an SM, against others.
  void time_blocks(double efficiency = 1) {
    const double throughput = work_.throughput_factor * efficiency;
    const double sm_rate =
        constants_.in_core_efficiency * throughput * (work_.peak.value() * per_sm_);
    const double per_element = 2 / sm_rate;
    const double per_operand = work_.element_bytes / (constants_.operand_port.value() * throughput);
    const double edge = constants_.tile_edge_elements;
    const double prologue = constants_.prologue.value();
    const double epilogue = constants_.epilogue.value() / (128 * 128);
    const double latency_term = latency_term_;
    const double m = work_.m, n = work_.n, batch = work_.batch;
    for (std::size_t t = 0; t < tiles_; ++t) {
      const double a = table_.rows[first_ + t], b = table_.cols[first_ + t];
      const double math = per_element * (a + edge) * (b + edge);
      const double operands = per_operand * ((m < a ? m : a) + (n < b ? n : b));
      const double rate = fourth_power(math) + fourth_power(operands);
      rate_[t] = rate;
      per_k_[t] = fourth_root(rate + latency_term);
      overhead_[t] = prologue + epilogue * a * b;
    }
    for (std::size_t t = 0; t < tiles_; ++t) {
      const std::size_t i = first_ + t;
      const double down = whole_parts(m, table_.cluster_rows[i], table_.per_cluster_row[i]);
      const double across = whole_parts(n, table_.cols[i], table_.per_col[i]);
      blocks_[t] = batch * down * table_.blocks_per_cluster[i] * across;
    }
  }

  // One block for each tile.
  void time_whole_tiles() {
    const double part_of_k = whole_steps_of_k(1), launch = constants_.launch.value();
    const double memory_term = fourth_power(memory_), power_term = power_term_;
    for (std::size_t t = 0; t < tiles_; ++t) {
      tile_[t] = t;
      split_[t] = 0;
      compute_[t] = quantized_waves(blocks_[t]) * (part_of_k * per_k_[t] + overhead_[t]);
    }
    for (std::size_t t = 0; t < tiles_; ++t) {
      total_[t] = score_[t] = launch + overlapped(compute_[t], power_term, memory_term);
    }
    found_ = tiles_;
    keep_best_score(0);
  }

  // Several blocks for each tile, where that helps.
  void time_splits() {
    const double launch = split_launch();
    const std::size_t splits = useful_splits(best_score_ * kCutOff, launch);
    if (splits == 0) return;
    for (std::size_t t = 0; t < tiles_; ++t) {
      if (blocks_[t] <= kMostSplitWaves * sms_) collect_splits(t, splits);
    }
    const double power_term = power_term_;
    for (std::size_t c = tiles_; c < found_; ++c) {
      total_[c] = launch + overlapped(compute_[c], power_term, memory_term_[c]);
      score_[c] *= total_[c];
    }
    keep_best_score(tiles_);
  }

  // Parts scaled along with the total.
  GemmParts likeliest() const {
    const double scale_to_best = 1 / best_score_;
    double weights = 0, weighted_times = 0;
    for (std::size_t c = 0; c < found_; ++c) {
      const double weight = likelihood(score_[c] * scale_to_best);
      weights += weight;
      weighted_times += weight * total_[c];
    }
    std::size_t best = 0;
    while (score_[best] > best_score_) ++best;
    const std::size_t tile = tile_[best];
    const double split = kPartsOfK[split_[best]];
    const double total = weighted_times / weights, scale = total / total_[best];
    GemmParts parts;
    parts.tile = table_.tile(first_ + tile);
    parts.split_k = static_cast<int>(split);
    parts.waves = quantized_waves(blocks_[tile] * split);
    parts.launch = (split > 1 ? split_launch() : constants_.launch.value()) * scale;
    parts.compute = compute_[best] * scale;
    parts.memory = (split > 1 ? split_memory(split) : memory_) * scale;
    parts.power = power_ * scale;
    parts.best = total_[best];
    parts.total = total;
    parts.waits_for_latency = latency_term_ > rate_[tile];
    return parts;
  }

 private:
  // What the candidates of one split share.
  struct SplitTerms {
    double parts, part_of_k, memory_term;
    // Fourth powers of the compute and memory time together that the cut-off leaves.
    double limit, needless_limit;
  };

  double split_launch() const {
    return constants_.launch.value() + constants_.split_launch.value();
  }
  double split_memory(double parts) const { return memory_ + workspace_ * parts; }

  double whole_steps_of_k(double parts) const {
    const double part = parts * kTensorCoreStepOfK;
    return kTensorCoreStepOfK * whole_parts(work_.k, part, 1 / part);
  }

  // Whole waves as far as the library's scheduling is that sharp.
  double quantized_waves(double blocks) const {
    const double waves = blocks * per_sm_;
    const double nearest = nearest_whole(waves);
    const double whole = nearest * sms_ < blocks ? nearest + 1 : nearest;
    return constants_.wave_sharpness * whole +
           (1 - constants_.wave_sharpness) * (waves > 1 ? waves : 1.0);
  }

  // Of the candidates from the first one given on and those before.
  void keep_best_score(std::size_t first) {
    double best = best_score_;
    for (std::size_t c = first; c < found_; ++c) best = score_[c] < best ? score_[c] : best;
    best_score_ = best;
  }

  // Fills terms_ from 1 on to the last split that can score below the cut-off.
  std::size_t useful_splits(double cut_off, double launch) {
    std::size_t i = 1;
    for (; i < kSplits && work_.k >= kTensorCoreMinPartOfK * kPartsOfK[i]; ++i) {
      const double parts = kPartsOfK[i], memory = split_memory(parts);
      const double limit = cut_off / kReluctance[i] - launch;
      if (limit <= power_ || limit <= memory) break;
      const double needless_limit = cut_off / (kReluctance[i] * kNeedlessSplit) - launch;
      terms_[i] = {parts, whole_steps_of_k(parts), fourth_power(memory), fourth_power(limit),
                   fourth_power(std::max(needless_limit, 0.0))};
    }
    return i - 1;
  }

  void collect_splits(std::size_t t, std::size_t splits) {
    const bool needless = blocks_[t] > sms_;
    const double reluctance = needless ? kNeedlessSplit : 1;
    for (std::size_t i = 1; i <= splits; ++i) {
      const SplitTerms& split = terms_[i];
      const double blocks = blocks_[t] * split.parts;
      const double compute = quantized_waves(blocks) * (split.part_of_k * per_k_[t] + overhead_[t]);
      const double limit = needless ? split.needless_limit : split.limit;
      const bool fits = fourth_power(compute) + split.memory_term < limit;
      tile_[found_] = t;
      split_[found_] = i;
      compute_[found_] = compute;
      memory_term_[found_] = split.memory_term;
      score_[found_] = kReluctance[i] * reluctance;  // until its time is known
      found_ += fits ? 1 : 0;
      // More parts of k only make more waves of the same work.
      if (!fits && blocks >= 2 * sms_) return;
    }
  }

  static constexpr std::size_t kCandidates = kMostGemmTiles * kSplits + 1;  // and one ahead

  const GemmWork& work_;
  const GemmConstants& constants_;
  const GemmTiles& table_;
  std::size_t first_, tiles_;  // those in use
  double sms_, per_sm_;
  double memory_, workspace_, power_, power_term_, latency_term_;
  std::array<SplitTerms, kSplits> terms_;
  GemmTiles::Column blocks_;    // without a split
  GemmTiles::Column per_k_;     // seconds a block takes for each element of k
  GemmTiles::Column rate_;      // fourth power of that without latency
  GemmTiles::Column overhead_;  // prologue and epilogue of a block
  std::size_t found_ = 0;
  double best_score_ = std::numeric_limits<double>::infinity();
  std::array<std::size_t, kCandidates> tile_, split_;
  std::array<double, kCandidates> compute_, memory_term_, total_, score_;
};

// Tiles from this one on are not much higher than the product.
std::size_t first_useful_tile(const GemmTiles& tiles, double m) {
  constexpr double kAnyProduct = 128;  // rows, and lower
  std::size_t first = 0;
  while (first + 1 < tiles.size() && tiles.rows[first] >= kAnyProduct && tiles.rows[first] > 2 * m)
    ++first;
  return first;
}

}  // namespace

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

GemmParts gemm_parts(const GemmWork& work, Tile tile, const GemmConstants& constants,
                     const Device& device) {
  GemmTiles one;
  one.add({tile, tile.rows});
  Candidates candidates(one, 0, work, constants, device);
  candidates.time_blocks();
  candidates.time_whole_tiles();
  return candidates.likeliest();
}

ROOFTILE_FOR_WIDER_VECTORS
GemmParts gemm_parts(const GemmWork& work, const GemmConstants& constants, const Device& device) {
  for (const TileRule& rule : constants.tile_rules) {
    if (work.m > rule.max_m || work.n > rule.max_n || work.m < rule.min_m || work.k < rule.min_k) {
      continue;
    }
    Candidates candidates(rule.tile, 0, work, constants, device);
    candidates.time_blocks(rule.efficiency);
    candidates.time_whole_tiles();
    return candidates.likeliest();
  }
  Candidates candidates(constants.tiles, first_useful_tile(constants.tiles, work.m), work,
                        constants, device);
  candidates.time_blocks();
  candidates.time_whole_tiles();
  candidates.time_splits();
  return candidates.likeliest();
}

}  // namespace rooftile
