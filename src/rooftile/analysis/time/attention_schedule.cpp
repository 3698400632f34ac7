#include "rooftile/analysis/time/attention_schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rooftile {
namespace {

double ceil_divide(double value, double by) { return std::ceil(value / std::max(by, 1.0)); }

bool is_flash_3(const AttentionConstants& c) { return c.style == AttentionStyle::flash_3; }

// The kernel compiled for the smallest head size that holds this one; for still larger heads the
// largest, whose cost then grows with the head size.
const AttentionKernel& pick_kernel(const AttentionConstants& c, const AttentionShape& shape) {
  const auto& kernels = shape.narrow && !c.narrow_kernels.empty() ? c.narrow_kernels : c.kernels;
  const double size = std::max(shape.head_dim, shape.value_dim);
  for (const AttentionKernel& kernel : kernels) {
    if (size <= kernel.head_dim) return kernel;
  }
  return kernels.back();
}

// A window of all keys hides none.
bool hides_keys(const AttentionShape& shape) {
  return shape.window > 0 && shape.window < shape.kv_len;
}

// Key blocks that the query tile `index` visits.
double blocks_of_tile(const AttentionShape& shape, const AttentionSchedule& s, double index) {
  const double first = std::floor(index * s.rows / s.queries_per_group);
  const double last = std::min(std::floor((index * s.rows + s.rows - 1) / s.queries_per_group),
                               shape.query_len - 1);
  const double past = shape.kv_len - shape.query_len;  // keys before the first query's own
  const bool masked = shape.causal || s.local;
  const double end = masked ? std::clamp(last + 1 + past, 1.0, shape.kv_len) : shape.kv_len;
  const double begin = s.local ? std::max(0.0, first + past - shape.window + 1) : 0;
  return std::max(1.0, std::ceil(end / s.keys) - std::floor(begin / s.keys));
}

// Sum over a group's tiles, of a sample of them where they are many.
double blocks_of_group(const AttentionShape& shape, const AttentionSchedule& s) {
  constexpr double kSampled = 256;
  const double step = std::max(1.0, std::floor(s.tiles / kSampled));
  double sum = 0, count = 0;
  for (double index = std::floor(step / 2); index < s.tiles; index += step) {
    sum += blocks_of_tile(shape, s, index);
    ++count;
  }
  return sum / std::max(count, 1.0) * s.tiles;
}

// Batches of few tokens run in graphs that reserve space for splits; one scheduling block takes at
// most 992 sequences.
bool reserves_splits(const AttentionShape& shape) {
  constexpr double kGraphTokens = 512;
  return shape.batch * shape.query_len <= kGraphTokens;
}

// Upper bound on the splits: that of the graph; larger batches ask the heuristic as if for one
// sequence.
double most_splits(const AttentionShape& shape, const AttentionSchedule& s, double sms) {
  constexpr double kGraphSplits = 32, kSchedulableBatch = 992;
  if (shape.batch > kSchedulableBatch) return 1;
  if (s.may_split) return kGraphSplits;
  const double seen = s.local ? std::min(shape.kv_len, shape.window + s.rows) : shape.kv_len;
  const double blocks = ceil_divide(seen, s.keys);
  constexpr double kNeverSplit = 4;
  if (blocks <= kNeverSplit) return 1;
  return choose_splits(shape.kv_heads * s.tiles, sms, blocks, false);
}

// FlashAttention-3 shares all key blocks of a batch evenly over the SMs, with a margin of 10 %.
double even_splits(const AttentionShape& shape, const AttentionSchedule& s, double sms) {
  const double blocks = ceil_divide(shape.kv_len, s.keys);
  const double per_sm = std::ceil(1.1 * s.groups * s.tiles * blocks / sms);
  return std::clamp(ceil_divide(blocks, per_sm), 1.0, most_splits(shape, s, sms));
}

void schedule_flash_3(const AttentionShape& shape, double sms, AttentionSchedule& s) {
  s.queries_per_group = shape.heads / shape.kv_heads;
  s.groups = shape.batch * shape.kv_heads;
  const double rows = shape.query_len * s.queries_per_group;
  s.few_queries = !s.local && s.kernel.few_rows > 0 && rows <= s.kernel.few_rows;
  s.rows = s.few_queries ? s.kernel.few_rows : s.kernel.rows;
  s.keys = s.few_queries ? s.kernel.few_keys : s.local ? s.kernel.local_keys : s.kernel.keys;
  s.tiles = ceil_divide(rows, s.rows);
  s.may_split = reserves_splits(shape);
  s.splits = even_splits(shape, s, sms);
}

void schedule_flash_2(const AttentionShape& shape, double sms, AttentionSchedule& s) {
  s.rows = s.kernel.rows;
  s.keys = s.local ? s.kernel.local_keys : s.kernel.keys;
  s.swapped = shape.query_len <= 1 && shape.heads > shape.kv_heads && !s.local;
  s.queries_per_group = s.swapped ? shape.heads / shape.kv_heads : 1;
  s.groups = shape.batch * (s.swapped ? shape.kv_heads : shape.heads);
  s.tiles = ceil_divide(shape.query_len * s.queries_per_group, s.rows);
  if (!s.swapped) return;
  constexpr double kBlocksPerSm = 2;
  s.splits = choose_splits(s.groups * s.tiles, kBlocksPerSm * sms,
                           ceil_divide(shape.kv_len, s.keys), true);
}

}  // namespace

AttentionShape attention_shape(const Op& op, const Attention& a) {
  AttentionShape shape;
  shape.batch = to_double(a.batch);
  shape.heads = to_double(a.heads);
  shape.kv_heads = std::max(to_double(a.kv_heads), 1.0);
  shape.query_len = to_double(a.query_len);
  shape.kv_len = to_double(a.kv_len);
  shape.head_dim = to_double(a.head_dim);
  shape.value_dim = to_double(a.value_dim);
  shape.key_width = to_double(key_width(a));
  shape.window = to_double(a.window);
  shape.causal = a.causal && a.query_len > 1;
  shape.narrow = info(op.dtypes.weight).bits <= 8;
  return shape;
}

double choose_splits(double units, double slots, double blocks, bool skip_equal_shares) {
  constexpr double kNearlyFull = 0.8, kGoodEnough = 0.85, kMost = 128;
  if (units >= kNearlyFull * slots) return 1;
  const auto most = static_cast<int>(std::min({kMost, slots, blocks}));
  const auto efficiency = [&](int splits) {
    const bool same = skip_equal_shares && splits > 1 &&
                      ceil_divide(blocks, splits) == ceil_divide(blocks, splits - 1);
    const double waves = units * splits / slots;
    return same ? 0.0 : waves / std::ceil(waves);
  };
  double best = 0;
  for (int splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  for (int splits = 1; splits <= most; ++splits) {
    if (efficiency(splits) >= kGoodEnough * best) return splits;
  }
  return 1;
}

AttentionSchedule schedule_attention(const AttentionConstants& constants,
                                     const AttentionShape& shape, double sms,
                                     const std::optional<AttentionTile>& tile) {
  AttentionSchedule s;
  s.kernel = pick_kernel(constants, shape);
  if (tile && !is_flash_3(constants)) {
    s.kernel.head_dim = tile->head_dim;
    s.kernel.rows = tile->rows;
    s.kernel.keys = s.kernel.local_keys = tile->keys;
  }
  s.local = hides_keys(shape);
  if (is_flash_3(constants)) {
    schedule_flash_3(shape, sms, s);
  } else {
    schedule_flash_2(shape, sms, s);
  }
  s.blocks = blocks_of_group(shape, s);
  const double first = std::ceil(blocks_of_tile(shape, s, 0) / s.splits);
  const double longest = std::ceil(blocks_of_tile(shape, s, s.tiles - 1) / s.splits);
  s.longest = std::max(first, longest);
  // FlashAttention-3 starts with the longest tiles, FlashAttention-2 with the first rows.
  s.last = is_flash_3(constants) ? first : longest;
  return s;
}

}  // namespace rooftile
