#include "rooftile/analysis/time/cuda_core_gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "rooftile/analysis/time/roofline_floor.h"

namespace rooftile {
namespace {

constexpr std::array<int, 9> kCudaCoreSplits{2, 3, 4, 6, 8, 12, 16, 24, 32};
// Shortest part of k that a split leaves, and the step in which k advances.
constexpr double kCudaCoreMinPartOfK = 64;
constexpr double kCudaCoreStepOfK = 8;
// A split is for products whose tiles leave SMs idle: beyond this many blocks per SM it never pays.
constexpr double kMostBlocksOfSplit = 8;
// A tile at least this large feeds the multiply-add pipes of any SM by itself.
constexpr double kFullTileElements = 8192;
// Blocks that share an SM and hide each other's latency.
constexpr double kResidentBlocks = 4;
// The sums of a split's parts.
constexpr double kSumBytes = 4;

double warm_share(double bytes, const CudaCoreConstants& c, const Device& device) {
  const double ratio = bytes / std::max(c.l2_share * device.l2_size.value(), 1.0);
  const double square = ratio * ratio;
  return 1.0 / (1.0 + square * square);
}

// Seconds for the bytes that L2 does not hold, of a working set.
double cold_time(double bytes, double working_set, double efficiency, const CudaCoreConstants& c,
                 const Device& device) {
  const double cold = bytes * (1 - warm_share(working_set, c, device));
  return cold / (efficiency * device.dram_bandwidth.value());
}

// Long rows lie on pages of their own and miss in the address translation caches.
double long_row_slowdown(const GemmWork& work, const CudaCoreConstants& c) {
  const double ratio = work.k / std::max(c.long_row_elements, 1.0);
  const double square = ratio * ratio;
  return 1 + c.long_row_slowdown * square / (1 + square);
}

// How often DRAM delivers the weights of a single product: blocks in flight cover some rows of
// tiles, and each such band reads all weights again unless they stay in L2.
double weight_readings(const GemmWork& work, const Tile& tile, const CudaCoreConstants& c,
                       const Device& device) {
  const double tiles_down = std::ceil(work.m / tile.rows), across = std::ceil(work.n / tile.cols);
  const double in_flight = kResidentBlocks * std::max(device.sms, 1);
  const double bands = tiles_down / std::clamp(in_flight / across, 1.0, tiles_down);
  const double weights = work.element_bytes * work.n * work.k;
  return 1 + (bands - 1) * (1 - warm_share(weights, c, device));
}

// Output and operands between DRAM and L2. Where both operands of a single product lie along k they
// are read in slabs, a few elements of each row; rows of the other layouts come no slower.
double dram_time(const GemmWork& work, bool nt, const Tile& tile, const CudaCoreConstants& c,
                 const Device& device) {
  const double out = cold_time(work.out_bytes, work.out_bytes, c.dram_efficiency, c, device);
  const double operands = work.operand_bytes;
  if (!nt) {
    const double efficiency =
        work.batch > 1 ? c.dram_efficiency : std::max(c.dram_efficiency, c.slab_efficiency);
    return out + cold_time(operands, operands, efficiency, c, device);
  }
  const double weights = operands * work.n / (work.m + work.n);
  const double bytes = operands + weights * (weight_readings(work, tile, c, device) - 1);
  return out + long_row_slowdown(work, c) * cold_time(bytes, bytes, c.slab_efficiency, c, device);
}

// The parts of a split write their sums and one kernel adds them up; half of it stays in L2.
double workspace_time(const GemmWork& work, int split, const CudaCoreConstants& c,
                      const Device& device) {
  if (split == 1) return 0;
  const double bytes = kSumBytes * work.batch * work.m * work.n * (split + 1);
  return 0.25 * bytes / (c.dram_efficiency * device.dram_bandwidth.value());
}

// The power limiter needs a while to lower the clock: short kernels run at the full one.
double throttled(double seconds, double peak, const CudaCoreConstants& c, const Device& device) {
  if (!device.power_limit || seconds <= 0) return seconds;
  const double needed = peak * c.energy_per_flop / device.power_limit->value();
  const double slowdown = std::max(0.0, needed - 1);
  return seconds * (1 + slowdown * seconds / (seconds + c.power_response.value()));
}

// What the candidates of one tile share.
struct CudaCoreTileTerms {
  const CudaCoreTile* tile = nullptr;
  double blocks = 0;        // without a split
  double per_k = 0;         // seconds an SM takes for each element of k of one block
  double usual_per_k = 0;   // on the generation's SMs at this clock
  double lone_block = 1;    // times as long if it is alone there
  double side_by_side = 1;  // blocks that take as long as one
  double epilogue = 0;
  double port = 0;  // seconds for all operand tiles into the SMs
  double dram = 0;  // seconds for operands and output between DRAM and L2
};

CudaCoreTileTerms tile_terms(const CudaCoreTile& tile, const GemmWork& work,
                             const CudaCoreConstants& c, const Device& device) {
  const double rows = tile.tile.rows, cols = tile.tile.cols;
  const double sms = std::max(device.sms, 1);
  const double flops = 2 * rows * cols / (tile.efficiency * work.throughput_factor);
  const double in_flight = rows * cols * tile.slices;
  CudaCoreTileTerms terms;
  terms.tile = &tile;
  terms.blocks = work.batch * std::ceil(work.m / rows) * std::ceil(work.n / cols);
  terms.per_k = flops * sms / (c.math_efficiency * work.peak.value());
  terms.usual_per_k = flops / (c.flop_per_clock * c.reference_clock.value());
  terms.lone_block = std::max(1.0, c.elements_to_fill_sm / in_flight);
  terms.side_by_side = in_flight < kFullTileElements ? c.blocks_side_by_side : 1;
  terms.epilogue = c.epilogue.value() * rows * cols / 16384;
  terms.port = terms.blocks * (std::min(work.m, rows) + std::min(work.n, cols)) *
               work.element_bytes * work.k /
               (c.operand_port.value() * work.throughput_factor * sms);
  return terms;
}

// On the busiest SM, which works off `waves` blocks.
struct ComputeTerms {
  double elements = 0;  // of k of one block that take as long
  double fixed = 0;     // seconds

  double time(double per_k) const { return elements * per_k + fixed; }
};

ComputeTerms compute_terms(const CudaCoreTileTerms& terms, const GemmWork& work, int split,
                           double waves, const CudaCoreConstants& c) {
  const double part_of_k =
      kCudaCoreStepOfK * std::ceil(std::ceil(work.k / split) / kCudaCoreStepOfK);
  const double shared = std::min(waves * terms.lone_block,
                                 terms.side_by_side * std::ceil(waves / terms.side_by_side));
  const double exposed = c.exposed_latency * std::ceil(waves / kResidentBlocks);
  return {(shared + exposed) * part_of_k, waves * terms.epilogue + c.prologue.value()};
}

// One tile after the other, each with its best split; keeps the one that the library prefers, by
// the math on the generation's SMs: a GPU with faster ones, a faster memory or a higher limit gets
// the same kernels.
class Search {
 public:
  Search(const GemmWork& work, bool nt, bool use_reluctance, const CudaCoreConstants& constants,
         const Device& device, const std::optional<Tile>& tile, int split_k)
      : work_(work),
        c_(constants),
        device_(device),
        sms_(std::max(device.sms, 1)),
        use_reluctance_(use_reluctance),
        tile_(tile),
        split_k_(split_k),
        nt_(nt && work.batch <= 1),
        slowdown_(nt_ ? long_row_slowdown(work, constants) : 1) {}

  void consider(const std::vector<CudaCoreTile>& tiles) {
    for (const CudaCoreTile& tile : tiles) {
      if (!tile_ || tile.tile == *tile_) consider(tile);
    }
  }

  bool found() const { return best_terms_.tile != nullptr; }

  GemmParts best() const {
    GemmParts parts;
    parts.tile = {best_terms_.tile->tile, best_terms_.tile->tile.rows};
    parts.split_k = best_.split;
    parts.waves = best_.waves;
    parts.launch = launch(best_.split);
    parts.compute = best_.compute;
    parts.power = best_.power;
    parts.memory = best_.memory;
    parts.total = parts.best = total(best_);
    parts.waits_for_latency = best_terms_.blocks * best_.split < sms_;
    return parts;
  }

 private:
  // One split of one tile.
  struct Candidate {
    int split = 1;
    double waves = 0, compute = 0, power = 0, memory = 0;
    double usual_math = 0;  // seconds on the generation's SMs
  };

  void consider(const CudaCoreTile& tile) {
    CudaCoreTileTerms terms = tile_terms(tile, work_, c_, device_);
    terms.dram = dram_time(work_, nt_, tile.tile, c_, device_);
    Candidate best = candidate(terms, split_k_);
    double math = best.usual_math;
    std::optional<double> best_total;  // roots take long: only where two are to be compared
    for (const int split : kCudaCoreSplits) {
      if (!may_split(terms, split)) break;
      const Candidate tried = candidate(terms, split);
      math = std::min(math, tried.usual_math);
      if (!best_total) best_total = total(best);
      if (launch(split) + std::max(tried.compute, tried.memory) >= *best_total) continue;
      const double tried_total = total(tried);
      if (tried_total >= *best_total) continue;
      best = tried;
      best_total = tried_total;
    }
    if (!use_reluctance_ && !best_total) best_total = total(best);
    const double score = use_reluctance_ ? math * (1 + tile.reluctance) : *best_total;
    if (best_terms_.tile && score >= best_score_) return;
    best_score_ = score;
    best_terms_ = terms;
    best_ = best;
  }

  bool may_split(const CudaCoreTileTerms& terms, int split) const {
    return !tile_ && work_.batch <= 1 && work_.k / split >= kCudaCoreMinPartOfK &&
           terms.blocks * split <= kMostBlocksOfSplit * sms_;
  }

  Candidate candidate(const CudaCoreTileTerms& terms, int split) const {
    Candidate made;
    made.split = split;
    made.waves = std::ceil(terms.blocks * split / sms_);
    const ComputeTerms compute = compute_terms(terms, work_, split, made.waves, c_);
    const double plain = slowdown_ * compute.time(terms.per_k);
    made.usual_math = slowdown_ * compute.time(terms.usual_per_k);
    made.compute = throttled(plain, work_.peak.value(), c_, device_);
    made.power = made.compute - plain;
    made.memory = std::max(terms.dram + workspace_time(work_, split, c_, device_), terms.port);
    return made;
  }

  // What a split costs beside its work is fitted to the library's choice of one; where it is known
  // that it ran, one more kernel adds up the parts.
  double launch(int split) const {
    const Seconds of_split = tile_ ? c_.launch : c_.split_launch;
    return c_.launch.value() + (split > 1 ? of_split.value() : 0);
  }

  // Math and memory overlap: the norm of both.
  double total(const Candidate& of) const {
    const auto [shorter, longer] = std::minmax(of.compute, of.memory);
    const double p = c_.overlap_exponent, ratio = shorter / longer;
    return launch(of.split) + longer * std::pow(1 + std::pow(ratio, p), 1 / p);
  }

  const GemmWork& work_;
  const CudaCoreConstants& c_;
  const Device& device_;
  double sms_;
  bool use_reluctance_;
  std::optional<Tile> tile_;  // of the kernel that ran, and its split
  int split_k_;
  bool nt_;
  double slowdown_;
  double best_score_ = std::numeric_limits<double>::infinity();
  CudaCoreTileTerms best_terms_;
  Candidate best_;
};

// A vector times a matrix has no tile: one pass over the matrix.
GemmParts vector_parts(const GemmWork& work, const CudaCoreConstants& c, const Device& device) {
  GemmParts parts;
  parts.tile = {{1, 128}, 1};
  parts.waves = 1;
  parts.launch = c.launch.value() + c.prologue.value();
  const double bytes = work.operand_bytes + work.out_bytes;
  parts.memory = cold_time(bytes, bytes, c.dram_efficiency, c, device) +
                 work.operand_bytes / (c.operand_port.value() * std::max(device.sms, 1));
  parts.total = parts.launch + parts.memory;
  parts.best = parts.total;
  return parts;
}

Bound bound_of(const GemmParts& parts) {
  if (parts.total < parts.launch + kLatencyMargin) return Bound::latency;
  if (parts.memory >= parts.compute) return Bound::memory;
  return parts.waits_for_latency ? Bound::latency : Bound::math;
}

// A sister GPU has another power limit and, with another release of cuBLAS, other kernels.
double own_widening(const TimeContext& context) {
  constexpr double kSisterGpu = 1.8;
  const auto& section = context.calibration.cuda_gemm;
  return is_sister(context, section) ? kSisterGpu : widening(context, section);
}

// Both operands stored along k, as in a Linear layer.
bool is_nt(const MatrixProduct& product) {
  return product.a.contiguous == product.k && product.b.contiguous == product.k;
}

// Of the kinds of product that were measured, in fp32: Linear layers, and batched products whose
// operands both lie along their rows.
const CudaCoreResidual* cuda_core_residual_of(const TimeContext& context,
                                              const MatrixProduct& product,
                                              const ProductTraits& traits) {
  const bool fp32 = product.math == Dtype::fp32 && product.a.dtype == Dtype::fp32 &&
                    product.b.dtype == Dtype::fp32 && product.out.dtype == Dtype::fp32;
  if (!fp32 || !is_plain(product, traits) || traits.out_bytes) return nullptr;
  // Square products do not tell their dimensions by size.
  const bool along_k = product.a.contiguous_dim == product.b.contiguous_dim;
  if (product.batch <= 1) {
    return along_k && is_nt(product) ? context.residuals.fp32_linear.get() : nullptr;
  }
  const bool nn =
      !along_k && product.a.contiguous == product.k && product.b.contiguous == product.n;
  return nn ? context.residuals.fp32_batched.get() : nullptr;
}

// Of the product on the GPU that was measured; `parts_here` are those on this one.
double learned_cuda_core_factor(const CudaCoreResidual& residual, const GemmWork& work, bool nt,
                                const GemmParts& parts_here) {
  const Device& reference = residual.reference;
  if (residual.is_reference) {
    return residual.model->factor(residual_features(work, parts_here, reference.sms), work);
  }
  const auto peak = reference.cuda_core_peak.find(Dtype::fp32);
  if (peak == reference.cuda_core_peak.end()) return 1;
  GemmWork there = work;
  there.peak = peak->second;
  const GemmParts parts = cuda_core_parts(there, nt, residual.constants, reference);
  return residual.model->factor(residual_features(there, parts, reference.sms), there);
}

}  // namespace

CudaCoreConstants scale_constants(CudaCoreConstants constants, const Device& device) {
  const double clock = device.boost_clock.value() / constants.reference_clock.value();
  if (!(clock > 0)) return constants;
  constants.prologue = constants.prologue / clock;
  constants.epilogue = constants.epilogue / clock;
  constants.operand_port = constants.operand_port * clock;
  constants.reference_clock = device.boost_clock;
  return constants;
}

GemmParts cuda_core_parts(const GemmWork& work, bool nt, const CudaCoreConstants& constants,
                          const Device& device, const std::optional<Tile>& tile, int split_k) {
  if (work.m <= 1 || work.n <= 1) return vector_parts(work, constants, device);
  // The kernels measured on batches read rows along n; a single product of that layout may take
  // any, and what the library prefers among all of them is not known.
  const bool one_list = work.batch > 1 || nt;
  Search search(work, nt, one_list, constants, device, tile, split_k);
  if (work.batch <= 1) search.consider(constants.tiles);
  if (work.batch > 1 || !nt) search.consider(constants.batched_tiles);
  return search.found() ? search.best() : cuda_core_parts(work, nt, constants, device);
}

TimeEstimate estimate_cuda_core_product(const TimeContext& context, const MatrixProduct& product,
                                        const MathUnit& unit, const ProductTraits& traits) {
  const CudaCoreConstants& constants = context.cuda_gemm;
  GemmWork work = gemm_work(product, unit, {});
  work.throughput_factor = traits.math_efficiency;
  work.operand_bytes = traits.operand_bytes.value_or(work.operand_bytes);
  work.out_bytes = traits.out_bytes.value_or(work.out_bytes);
  const bool nt = is_nt(product);
  GemmParts parts = cuda_core_parts(work, nt, constants, context.device);
  const bool is_other_kernel =
      traits.tile && (parts.tile.tile != *traits.tile || parts.split_k != traits.split_k);
  if (is_other_kernel) {
    parts = cuda_core_parts(work, nt, constants, context.device, traits.tile, traits.split_k);
  }
  const Bound bound = bound_of(parts);
  const double modelled = parts.total;
  // The library's choice is the larger part of what the correction knows.
  const CudaCoreResidual* residual =
      is_other_kernel ? nullptr : cuda_core_residual_of(context, product, traits);
  const double learned = residual ? learned_cuda_core_factor(*residual, work, nt, parts) : 1;
  scale_parts(parts, learned);

  // Shapes like these were measured on this GPU or, with the kernels that it takes, on its sister.
  const bool has_intervals =
      residual && (residual->widening || is_sister(context, context.calibration.cuda_gemm));
  const bool measured = has_intervals && residual->model->supports(work, modelled * 1e6);
  const Intervals& wider = product.batch > 1 ? constants.batched_intervals : constants.intervals;
  const Intervals& own = measured ? residual->model->intervals : wider;
  const double wide =
      measured ? residual->widening.value_or(own_widening(context)) : own_widening(context);
  TimeEstimate estimate = traits.intervals ? make_estimate(Seconds(parts.total), bound,
                                                           *traits.intervals, traits.widening)
                                           : make_estimate(Seconds(parts.total), bound, own, wide);
  add_floor(context, estimate, floor_of(work, unit.peak, context.device));
  estimate.kernels = Kernels::cuda_core_gemm;
  estimate.learned = learned;
  estimate.launch = Seconds(parts.launch);
  estimate.compute = Seconds(parts.compute);
  estimate.memory = Seconds(parts.memory);
  estimate.power = Seconds(parts.power);
  estimate.split_k = parts.split_k;
  estimate.grid =
      tile_grid(work.m, work.n, work.batch, parts.tile.tile, std::max(context.device.sms, 1));
  return estimate * static_cast<double>(product.repeats);
}

}  // namespace rooftile
