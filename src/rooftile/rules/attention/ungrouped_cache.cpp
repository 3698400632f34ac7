#include <fmt/format.h>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/attention/cache_reads.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace attention_ungrouped_cache_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A decode step that spends much of its time reading a cache in which every query head has keys and
values of its own. A decision about the next model, hidden unless asked for.

## Why it costs time
The cache is as wide as all heads, and each element is read for a single query. With grouped queries
several query heads share one key-value head, so the same cache serves them all.

## How to fix
Train the next model with grouped-query attention, 8 key-value heads as Llama-2-70B and its
successors, or with latent attention. A trained model can be converted: average the key-value heads of
each group and continue pre-training for about 5 % of its steps.

## How the saving is estimated
The time model predicts the same attention with 8 key-value heads. The smaller projections of keys and
values save a little more, which is not counted.

## When not to
- A model that is not going to be trained again: use a narrower cache.
- Few positions in the cache: the weights dominate, and nothing is reported.
- Cross-attention caches of an encoder are of fixed length and usually short.

## Evidence
- Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
  Checkpoints", 2023: 8 groups come close to the quality of full heads, with 5 % of the pre-training
  compute.
- Touvron et al., "Llama 2", 2023, appendix A.2.1: grouped-query attention at larger batches and
  contexts.
)md";

constexpr double kMinShare = threshold::kWorthTraining;
constexpr std::int64_t kGroups = 8;  // Ainslie et al.

bool is_ungrouped(const Op&, const Attention& a) {
  return a.kv_heads == a.heads && a.heads > kGroups && a.heads % kGroups == 0;
}

Op with_groups(const Op& op) {
  Op changed = op;
  std::get<Attention>(changed.body).kv_heads = kGroups;
  return changed;
}

std::vector<Finding> check(const RuleInput& input) {
  const CacheReads reads = find_cache_reads(input, is_ungrouped);
  if (reads.time_share < kMinShare) return {};
  const auto saving = saving_if_all(input, reads, with_groups);
  if (is_pointless(saving)) return {};
  const Op& op = input.workload.ops[reads.groups.front().ops.front()];
  const std::int64_t heads = std::get<Attention>(op.body).heads;
  Finding finding = finding_at_groups(
      input, reads.groups,
      fmt::format("Each of {} query heads has keys and values of its own; reading them takes "
                  "{} of the time",
                  heads, share_text(reads.time_share)),
      {fmt::format("For the next model use grouped-query attention with {} key-value heads, a "
                   "cache of 1/{} the size",
                   kGroups, heads / kGroups),
       Exactness::changes_training},
      saving);
  for (const LayerGroup& group : reads.groups) note_changes(input, group, with_groups, finding);
  return {finding};
}

}  // namespace attention_ungrouped_cache_rule

extern const Rule attention_ungrouped_cache{
    .id = "attention/ungrouped-cache",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Every query head has keys of its own in the cache",
    .doc = attention_ungrouped_cache_rule::kDoc,
    .in_ops = attention_ungrouped_cache_rule::check};

}  // namespace rooftile
