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
// Per-block overhead of waves after the first overlaps with the block before.
constexpr double kLaterWaveOverhead = 0.8;
// Share of the split's workspace traffic that reaches DRAM.
constexpr double kWorkspaceShare = 0.3;
constexpr double kWorkspaceBytes = 8;  // fp32, written and read

double fifth_power(double x) {
  const double square = x * x;
  return square * square * x;
}

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

double workspace_time(const GemmWork& work, int split, const Device& device) {
  if (split == 1) return 0;
  const double bytes = kWorkspaceBytes * work.batch * work.m * work.n * split;
  return kWorkspaceShare * bytes / (2.0 * device.dram_bandwidth.value());
}

double power_time(const GemmWork& work) {
  const double flop = 2.0 * work.batch * work.m * work.n * work.k;
  return flop / (work.sustained_efficiency * work.throughput_factor * work.peak.value());
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
  const double rate = fifth_power(math) + fifth_power(operands);
  const double wait = fifth_power(latency);
  const int pair = tile.cluster_rows / tile.tile.rows;
  return {&tile, work.batch * std::ceil(work.m / tile.cluster_rows) * pair * std::ceil(work.n / b),
          std::pow(rate + wait, 0.2), c.prologue.value() + c.epilogue.value() * a * b / 16384,
          wait > rate};
}

double quantized_waves(double waves, double sharpness) {
  return sharpness * std::ceil(waves) + (1 - sharpness) * std::max(1.0, waves);
}

double compute_time(const TileTerms& terms, const GemmWork& work, int split, double waves) {
  const double part_of_k = kStepOfK * std::ceil(work.k / split / kStepOfK);
  return waves * part_of_k * terms.per_k + (1 + kLaterWaveOverhead * (waves - 1)) * terms.overhead;
}

// One candidate after the other; keeps the best.
class Search {
 public:
  Search(const GemmWork& work, const GemmConstants& constants, const Device& device)
      : work_(work), constants_(constants), sms_(std::max(device.sms, 1)) {
    best_.launch = constants.launch.value();
    best_.power = power_time(work);
    power_term_ = std::pow(best_.power, constants.overlap_exponent);
    const double memory = memory_time(work, constants, device);
    for (std::size_t i = 0; i < kSplits.size(); ++i) {
      memory_[i] = memory + workspace_time(work, kSplits[i].parts, device);
      memory_terms_[i] = std::pow(memory_[i], constants.overlap_exponent);
    }
  }

  void consider(const TileTerms& terms) {
    for (std::size_t i = 0; i < kSplits.size(); ++i) {
      if (i > 0 && work_.k / kSplits[i].parts < kMinPartOfK) break;
      consider(terms, i);
    }
  }

  GemmParts best() const {
    GemmParts parts = best_;
    for (double* part :
         {&parts.launch, &parts.compute, &parts.memory, &parts.power, &parts.total}) {
      *part *= constants_.level;
    }
    return parts;
  }

 private:
  void consider(const TileTerms& terms, std::size_t i) {
    const Split& split = kSplits[i];
    const double waves =
        quantized_waves(terms.tiles * split.parts / sms_, constants_.wave_sharpness);
    const double compute = compute_time(terms, work_, split.parts, waves);
    const double needless = split.parts > 1 && terms.tiles > sms_ ? kNeedlessSplit : 1;
    const double reluctance = split.score * needless;
    const double launches =
        constants_.launch.value() + (split.parts > 1 ? constants_.split_launch.value() : 0);
    const double at_least = launches + std::max({compute, memory_[i], best_.power});
    if (at_least * reluctance >= best_score_) return;
    const double p = constants_.overlap_exponent;
    const double total =
        launches + std::pow(std::pow(compute, p) + memory_terms_[i] + power_term_, 1 / p);
    if (total * reluctance >= best_score_) return;
    best_score_ = total * reluctance;
    best_ = {*terms.tile, split.parts, waves, launches,     compute,
             memory_[i],  best_.power, total, terms.latency};
  }

  const GemmWork& work_;
  const GemmConstants& constants_;
  double sms_;
  std::array<double, kSplits.size()> memory_{}, memory_terms_{};
  double power_term_ = 0;
  double best_score_ = std::numeric_limits<double>::infinity();
  GemmParts best_;
};

// A part with far less power per peak rate than its donor is not limited in proportion; one with
// far more is limited by its cores instead.
constexpr double kMinPowerScale = 0.75, kMaxSustainedEfficiency = 1.05;

double sustained_efficiency(const GemmConstants& constants, const Device& device,
                            bool tensor_cores) {
  const double donor = constants.sustained_efficiency;
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  const bool known = tensor_cores && device.power_limit && peak != device.tensor_core_peak.end() &&
                     constants.reference_watts_per_flop_rate > 0;
  if (!known) return donor;
  const double watts_per_flop_rate = device.power_limit->value() / peak->second.value();
  const double scale =
      std::max(watts_per_flop_rate / constants.reference_watts_per_flop_rate, kMinPowerScale);
  return std::min(donor * scale, std::max(donor, kMaxSustainedEfficiency));
}

}  // namespace

GemmConstants scale_constants(GemmConstants constants, const Device& device, bool tensor_cores) {
  const double clock = device.boost_clock.value() > 0
                           ? device.boost_clock.value() / constants.reference_clock.value()
                           : 1.0;
  constants.latency_per_k = constants.latency_per_k / clock;
  constants.operand_port = constants.operand_port * clock;
  constants.sustained_efficiency = sustained_efficiency(constants, device, tensor_cores);
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
  for (const GemmTile& tile : constants.tiles) {
    if (tile.tile.rows >= 128 && tile.tile.rows > 2 * work.m) continue;
    search.consider(tile_terms(tile, work, constants, device));
  }
  return search.best();
}

}  // namespace rooftile
