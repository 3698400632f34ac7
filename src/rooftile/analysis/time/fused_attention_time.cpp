// Attention in one kernel.
//
// A call is a chain of kernels: one stores the new keys and values in the cache, one attends, and
// where the keys are split, one combines the shares. Each tile of query rows has a fixed cost and a
// cost per block of keys; tiles go to the SMs as attention_schedule.h says.
#include <algorithm>
#include <cmath>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/time/attention_schedule.h"
#include "rooftile/analysis/time/families.h"
#include "rooftile/analysis/time/math_unit.h"
#include "rooftile/analysis/time/roofline_floor.h"

namespace rooftile {
namespace {

double norm(double a, double b, double exponent) {
  const double longest = std::max({a, b, 1e-30});
  return longest *
         std::pow(std::pow(a / longest, exponent) + std::pow(b / longest, exponent), 1 / exponent);
}

// Seconds; launch holds what passes before and after the attention kernel itself.
struct Parts {
  double launch = 0, cache_write = 0, fixed = 0, blocks = 0, keys = 0, queries = 0, combine = 0;
  double overlap_exponent = 3;
  double useful = 1;     // share of `blocks` that computes, for rows that hold queries
  bool loading = false;  // the blocks wait for their keys on the way into the SM

  double total() const {
    return launch + cache_write + fixed + norm(blocks, keys, overlap_exponent) + queries + combine;
  }
  double compute() const { return fixed + blocks; }
  double memory() const { return cache_write + keys + queries; }
};

// The attention kernel alone, in seconds.
struct Kernel {
  double fixed = 0, blocks = 0;  // cost of the tiles as such; of their blocks of keys

  double total() const { return fixed + blocks; }
};

// What one call touches, in bytes.
struct Traffic {
  double queries = 0, keys = 0, cache_write = 0, partial_outputs = 0;
};

double element_bytes(Dtype dtype) { return storage(1, dtype).value(); }

Traffic traffic_of(const Op& op, const AttentionShape& a, const AttentionSchedule& s) {
  const double dims = a.head_dim + a.value_dim;
  const double wide = element_bytes(op.dtypes.input), stored = element_bytes(op.dtypes.weight);
  const double seen = s.local ? std::min(a.kv_len, a.window + a.query_len - 1) : a.kv_len;
  constexpr double kFp32 = 4;
  Traffic traffic;
  traffic.queries = a.batch * a.query_len * a.heads * dims * wide;
  traffic.keys = a.batch * seen * a.kv_heads * a.key_width * stored;
  // Only the new tokens' keys and values are written; each is read once.
  traffic.cache_write =
      a.batch * std::min(a.query_len, a.kv_len) * a.kv_heads * a.key_width * (wide + stored);
  if (s.splits > 1) {
    traffic.partial_outputs = 2 * s.splits * a.batch * a.query_len * a.heads * a.value_dim * kFp32;
  }
  return traffic;
}

// Share of the bytes that L2 holds; sharp, as reuse in a cycle either fits or does not.
double warm_share(double bytes, double share, const Device& device, double sharpness) {
  const double capacity = std::max(share * device.l2_size.value(), 1.0);
  return 1.0 / (1.0 + std::pow(bytes / capacity, sharpness));
}

class FusedAttention {
 public:
  FusedAttention(const TimeContext& context, const Op& op, const Attention& attention)
      : c_(context.calibration.attention.constants),
        own_(context.calibration.attention.own),
        one_kernel_launch_(context.calibration.stream.constants.launch),
        device_(context.running),
        op_(op),
        shape_(attention_shape(op, attention)),
        sms_(std::max(context.device.sms, 1)),
        keeps_cache_(context.updates_cache && (shape_.causal || shape_.query_len == 1)),
        schedule_(schedule_attention(c_, shape_, sms_, context.attention_tile)),
        traffic_(traffic_of(op, shape_, schedule_)),
        warm_(warm_share(rival_bytes(attention, context.step), c_.decode_l2_share, device_, 8)) {}

  Parts parts() const {
    Parts parts;
    parts.launch = launch();
    parts.cache_write = cache_write();
    const bool latent = is_latent();
    const Kernel attention = latent ? latent_kernel() : kernel();
    parts.fixed = attention.fixed;
    parts.blocks = attention.blocks;
    parts.loading = !latent && is_loading();
    parts.useful = parts.loading ? 0 : latent ? used_latent_rows() : used_rows();
    parts.fixed += (1 - warm_) * c_.dram_latency.value();
    parts.keys = traffic_.keys * ((1 - warm_) + warm_ / c_.decode_l2_speedup) /
                 ((latent ? kLatentBandwidth : c_.dram_efficiency) * bandwidth());
    parts.queries = traffic_.queries * coldness() / (c_.query_bandwidth * bandwidth());
    parts.combine = combine();
    parts.overlap_exponent = c_.overlap_exponent;
    return parts;
  }
  // Keys and values that L2 does not hold, at the full bandwidth.
  Seconds floor() const { return Seconds(traffic_.keys * (1 - warm_) / bandwidth()); }

 private:
  // What passes through L2 until the same keys are read again. A cache waits for the next step;
  // keys without one were written just before.
  double rival_bytes(const Attention& attention, const StepState& step) const {
    return reads_cache(attention) ? std::max(traffic_.keys, step.bytes.value()) : traffic_.keys;
  }

  double bandwidth() const { return device_.dram_bandwidth.value(); }
  double clock() const { return std::max(device_.boost_clock.value(), 1.0); }
  // Latencies count clocks.
  double slower_clock() const {
    const double reference = c_.reference_clock.value();
    return reference > 0 ? reference / clock() : 1.0;
  }

  // Without a cache the kernel that attends is the only one; its gradient is a chain again.
  double launch() const {
    const bool alone = !keeps_cache_ && op_.phase == Phase::forward;
    const Seconds chain = alone ? one_kernel_launch_ : c_.launch;
    return chain.value() + (shape_.narrow ? c_.narrow_launch.value() : 0) + copies() + sequences();
  }

  // FlashAttention-2 takes the heads of a single query as rows and copies the outputs back; unless
  // the sequences or key heads are one, that rearranges queries and outputs in memory.
  double copies() const {
    if (!schedule_.swapped) return 0;
    const bool strided = shape_.batch > 1 && shape_.kv_heads > 1;
    const double bytes = traffic_.queries * (strided ? 2 : 1);
    return c_.copy.value() + (strided ? c_.strided_copies.value() : 0) +
           bytes / (c_.copy_efficiency * bandwidth());
  }

  // Work units find their sequence one after the other; batches up to 992 are scheduled ahead.
  double sequences() const {
    constexpr double kSchedulableBatch = 992;
    const AttentionKernel& kernel = schedule_.kernel;
    const double batch = shape_.batch;
    if (shape_.query_len > 1 || is_latent()) return 0;
    if (batch > kSchedulableBatch) return batch * kernel.late_sequence.value();
    return batch * (kernel.sequence.value() + kernel.sequence_pair.value() * batch);
  }

  // How much longer than from L2 alone bytes take that earlier kernels of the call left behind.
  double coldness() const {
    const double warm =
        warm_share(traffic_.queries + traffic_.cache_write, c_.l2_share, device_, 4);
    return (1 - warm) + warm / c_.l2_speedup;
  }

  // One block per token, of one thread per element up to 512; the SM holds 2048 threads.
  double cache_write() const {
    if (!keeps_cache_) return 0;
    constexpr double kMostThreads = 512, kThreadsPerSm = 2048, kOverlap = 4;
    const double tokens = shape_.batch * std::min(shape_.query_len, shape_.kv_len);
    const double elements = shape_.kv_heads * shape_.head_dim;
    double block = c_.cache_write.value() * std::min(elements, kMostThreads);
    if (shape_.narrow) {
      block = c_.narrow_cache_write * block + c_.narrow_element.value() * elements;
    }
    const double blocks = tokens * block * slower_clock() / (kThreadsPerSm * sms_);
    const double bytes = traffic_.cache_write / (c_.cache_write_efficiency * bandwidth());
    return coldness() * norm(blocks, bytes, kOverlap);
  }

  // A kernel for wider heads computes and loads the padding too.
  double padding() const {
    const double widest = std::max(shape_.head_dim, shape_.value_dim);
    return std::max(1.0, schedule_.kernel.head_dim / std::max(widest, 1.0));
  }

  // Of one block of keys against one tile: the products and exponentials.
  double block_math() const {
    const double rows = schedule_.rows, keys = schedule_.keys;
    const double dims = (shape_.head_dim + shape_.value_dim) * padding();
    const bool narrow = shape_.narrow && !c_.narrow_kernels.empty();
    const MathUnit unit = math_unit(device_, narrow ? op_.dtypes.weight : op_.dtypes.input);
    const double efficiency = narrow ? c_.narrow_math_efficiency : c_.math_efficiency;
    const double math = 2 * rows * keys * dims * sms_ / (efficiency * unit.peak.value());
    return math + rows * keys / (c_.exponentials_per_clock * clock());
  }

  // Into one SM, a second: what the donor's SMs draw. Those of another generation are taken to be
  // built for its memory as the donor's are for theirs.
  double port() const {
    const double for_memory = own_ ? 1 : c_.port_against_dram;
    return std::max(c_.port_bytes_per_clock * clock(), for_memory * bandwidth() / sms_);
  }

  // The way of a block of keys into the SM.
  double block_load() const {
    return schedule_.keys * shape_.key_width * padding() * element_bytes(op_.dtypes.weight) /
           port();
  }

  double block_seconds() const {
    constexpr double kOverlap = 10;
    return schedule_.kernel.block_cost * norm(block_math(), block_load(), kOverlap);
  }

  bool is_loading() const { return block_load() > block_math(); }

  // Of the rows of all tiles; a single query fills few.
  double used_rows() const {
    return std::min(1.0, shape_.query_len * schedule_.queries_per_group /
                             std::max(schedule_.tiles * schedule_.rows, 1.0));
  }

  double tile_fixed() const {
    const AttentionKernel& kernel = schedule_.kernel;
    if (schedule_.few_queries) {
      const Seconds few = shape_.query_len > 1 ? kernel.few_prefill_fixed : kernel.few_tile_fixed;
      return few.value() * slower_clock();
    }
    const double packed = schedule_.queries_per_group;
    const bool loaded_by_engine = packed == 4 || packed == 8 || packed == 16;
    const Seconds fixed = schedule_.local ? kernel.local_tile_fixed : kernel.tile_fixed;
    return fixed.value() * slower_clock() * (loaded_by_engine ? c_.query_load_gain : 1.0);
  }

  // Whether shared memory holds two tiles with their keys and values, which then hide each other's
  // latency; yes where the device file does not say.
  bool two_fit() const {
    if (!device_.shared_memory_per_sm) return true;
    const double query = schedule_.rows * shape_.head_dim;
    const double key_value = schedule_.keys * shape_.key_width;
    const double bytes = (query + key_value) * element_bytes(op_.dtypes.input);
    return 2 * bytes <= device_.shared_memory_per_sm->value();
  }

  // Units in their order over the SMs: as long as all work takes, and the end, when SMs run empty;
  // never less than the longest unit.
  Kernel kernel() const {
    const AttentionSchedule& s = schedule_;
    const double waves = s.units() / sms_;
    const double end = c_.wave_sharpness * (std::ceil(waves) - waves);
    const double fixed = tile_fixed();
    const double alone = block_seconds() * c_.alone;
    const double block = two_fit() ? block_seconds() : alone;
    const Kernel longest{fixed, alone * s.longest};
    const Kernel all{fixed * (waves + end), block * (s.groups * s.blocks / sms_ + end * s.last)};
    Kernel kernel = longest.total() > all.total() ? longest : all;
    kernel.fixed += c_.start.value() * slower_clock();
    return kernel;
  }

  // FlashMLA, README (DeepSeek, 2025): up to 660 TFLOP/s and 3,000 GB/s on an H800 SXM5, which has
  // 989 TFLOP/s and 3.35 TB/s; tiles of 64 query rows, the keys spread over all SMs.
  static constexpr double kLatentMath = 0.667, kLatentBandwidth = 0.9, kLatentRows = 64;

  bool is_latent() const { return std::get<Attention>(op_.body).values_in_keys; }
  double latent_rows() const { return shape_.query_len * shape_.heads; }
  double padded_latent_rows() const { return kLatentRows * std::ceil(latent_rows() / kLatentRows); }
  double used_latent_rows() const { return latent_rows() / std::max(padded_latent_rows(), 1.0); }
  Kernel latent_kernel() const {
    const double seen = schedule_.local ? shape_.window : shape_.kv_len;
    const double flop =
        2 * shape_.batch * seen * padded_latent_rows() * (shape_.head_dim + shape_.value_dim);
    const MathUnit unit = math_unit(device_, op_.dtypes.input);
    return {c_.start.value() * slower_clock() + tile_fixed(),
            flop / (kLatentMath * unit.peak.value())};
  }

  // The combining kernel follows wherever the keys may be split; its blocks hold 8 rows of up to
  // 64 columns.
  double combine() const {
    if (schedule_.splits > 1) {
      return c_.combine.value() + c_.combine_per_split.value() * schedule_.splits +
             traffic_.partial_outputs / (c_.dram_efficiency * bandwidth());
    }
    constexpr double kRows = 8, kColumns = 64;
    const double blocks = shape_.batch * std::ceil(shape_.query_len * shape_.heads / kRows) *
                          std::ceil(shape_.value_dim / kColumns);
    return schedule_.may_split ? c_.combine_block.value() * blocks : 0;
  }

  const AttentionConstants& c_;
  bool own_;  // fitted on a GPU of this generation
  Seconds one_kernel_launch_;
  const Device& device_;
  const Op& op_;
  AttentionShape shape_;
  double sms_;
  bool keeps_cache_;
  AttentionSchedule schedule_;
  Traffic traffic_;
  double warm_;  // share of the keys and values that L2 still holds since the step before
};

// FlashAttention takes 16 bits or less. Wider inputs go to kernels with tiles of their own, some on
// Tensor Cores, that were never measured; set by hand.
constexpr Interval kOther{0.3, 2.0};
constexpr Intervals kOtherKernels{kOther, kOther, kOther};

// The kernels of latent caches are known by their best published rates; set by hand.
constexpr Interval kLatent{0.9, 1.7};
constexpr Intervals kLatentKernels{kLatent, kLatent, kLatent};

// No cache is written; twice the traffic, and per tile the fixed cost of two kernels.
void make_backward(Parts& parts, const AttentionConstants& c) {
  parts.fixed *= 2;
  parts.blocks *= c.backward_flop / c.backward_efficiency;
  parts.keys *= 2;
  parts.queries *= 2;
  parts.cache_write = parts.combine = 0;
}

// Which of the measured intervals holds.
Bound regime_of(const Parts& parts) {
  if (2 * (parts.launch + parts.combine) > parts.total()) return Bound::latency;
  return parts.memory() >= parts.compute() ? Bound::memory : Bound::math;
}

// Tiles of few queries compute mostly padding: that time goes while their keys come in.
// `intensity` is over the GPU's ridge. Set by hand: encoders of 197 tokens have a third of an
// H100's ridge and do wait for their tiles.
Bound bound_of(const Parts& parts, double intensity) {
  constexpr double kFarBelow = 0.25;
  const Bound regime = regime_of(parts);
  const double memory = parts.memory() + (parts.loading ? parts.blocks : 0);
  const bool computes = parts.compute() * parts.useful >= memory && intensity > kFarBelow;
  if (regime != Bound::math || computes) return regime;
  return memory >= parts.fixed ? Bound::memory : Bound::latency;
}

double intensity_over_ridge(const Op& op, const Device& device) {
  const std::optional<FlopPerByte> ridge = device.ridge(op.dtypes.input);
  return ridge ? count_cost(op).intensity() / *ridge : 1;
}

}  // namespace

TimeEstimate estimate_fused_attention(const TimeContext& context, const Op& op,
                                      const Attention& attention) {
  const auto& section = context.calibration.attention;
  const FusedAttention model(context, op, attention);
  Parts parts = model.parts();
  double wider = 1;
  if (op.phase != Phase::forward) {
    make_backward(parts, section.constants);
    constexpr double kNeverMeasured = 1.5;
    wider = kNeverMeasured;
  }
  const Intervals& measured = reads_cache(attention) ? section.constants.decode_intervals
                                                     : section.constants.prefill_intervals;
  const Intervals& intervals = attention.values_in_keys             ? kLatentKernels
                               : size_in_bytes(op.dtypes.input) > 2 ? kOtherKernels
                                                                    : measured;
  // What is set by hand holds for all GPUs and is no wider on one that was not measured.
  if (&intervals == &measured) wider *= widening(context, section);
  const Bound regime = regime_of(parts);
  TimeEstimate estimate = make_estimate(Seconds(parts.total()), regime, intervals, wider);
  estimate.bound = bound_of(parts, intensity_over_ridge(op, context.running));
  estimate.regime = regime;
  add_floor(context, estimate, model.floor());
  estimate.launch = Seconds(parts.launch + parts.combine);
  estimate.compute = Seconds(parts.compute());
  estimate.memory = Seconds(parts.memory());
  return estimate;
}

}  // namespace rooftile
