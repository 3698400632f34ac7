// What a fused attention kernel computes: its tiles, their key blocks, and how the keys are split.
//
// After the public kernels FlashAttention-2 (Ampere and its kin) and FlashAttention-3 (Hopper) as
// inference servers run them, with keys and values in pages of a cache: Dao, "FlashAttention-2",
// 2023; Shah et al., "FlashAttention-3", 2024; their split heuristics; vLLM's cache layout.
#pragma once

#include <optional>

#include "rooftile/analysis/tiles.h"
#include "rooftile/analysis/time/calibration.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// What the schedule depends on; `narrow` for keys and values of 8 bits.
struct AttentionShape {
  double batch = 0, heads = 0, kv_heads = 0;
  double query_len = 0, kv_len = 0;
  double head_dim = 0, value_dim = 0, key_width = 0;  // key_width: of a key and its value
  double window = 0;                                  // keys a query sees at most; 0 = all
  bool causal = false, narrow = false;
};
AttentionShape attention_shape(const Op& op, const Attention& attention);

// One work unit is one tile of query rows of one group of heads against one share of the keys.
struct AttentionSchedule {
  AttentionKernel kernel;
  double rows = 0, keys = 0;     // of a tile; of a block of keys
  bool few_queries = false;      // all query rows of a group fit the small tile
  bool local = false;            // a window hides keys
  double queries_per_group = 1;  // query heads that share a tile, as more rows
  double groups = 0;             // sequences times heads that have tiles of their own
  double tiles = 0;              // query tiles of one group
  double splits = 1;             // shares of the keys
  double blocks = 0;             // key blocks of all tiles and shares of one group
  double longest = 0;            // key blocks of the longest unit
  double last = 0;               // of the unit that starts last
  bool may_split = false;        // the kernel that can split the keys, used or not
  bool swapped = false;          // one query a sequence, its heads taken as rows (FlashAttention-2)

  double units() const { return groups * tiles * splits; }
};

// `tile`: of the kernel that ran; FlashAttention-3 ignores it.
AttentionSchedule schedule_attention(const AttentionConstants& constants,
                                     const AttentionShape& shape, double sms,
                                     const std::optional<AttentionTile>& tile = {});

// The fewest shares of `blocks` key blocks with which `units` work units fill `slots` to 85 % of
// what the best number of shares does; 1 where the units nearly fill the slots by themselves.
double choose_splits(double units, double slots, double blocks, bool skip_equal_shares);

}  // namespace rooftile
