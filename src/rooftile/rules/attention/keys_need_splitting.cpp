#include <fmt/format.h>

#include <algorithm>

#include "rooftile/rules/attention/cache_reads.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace attention_keys_need_splitting_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A decode step with so few sequences and key-value heads that a thread block for each leaves half of the GPU's
SMs without work, and a cache long enough for that to matter. Information: the usual kernels
handle it.

## Why it costs time
A block of its own reads all keys of one sequence and head, one after the other, at the rate of one SM. The
other SMs and most of the memory bandwidth are idle.

## How to fix
Split the keys over several blocks and combine their results (split-KV, flash-decoding).
FlashAttention with a cache, FlashInfer, vLLM and TensorRT-LLM do so by themselves. A kernel of your own
needs a second pass that rescales and adds the parts.

## How the saving is estimated
No saving is given: the predicted time is that of a kernel that splits.

## When not to
- Larger batches fill the GPU without it.
- PyTorch's `scaled_dot_product_attention` splits with its FlashAttention backend; its
  memory-efficient backend does not.

## Evidence
- Dao et al., "Flash-Decoding for long-context inference", PyTorch blog, 2023: up to 8 times as
  fast at batch 1.
- FlashAttention, `num_splits_heuristic`: splits where blocks fill less than 0.8 of the SMs.
)md";

constexpr double kMinShare = threshold::kBeyondModelError;
constexpr std::int64_t kLongCache = 1024;

std::int64_t blocks_of(const Attention& a) { return a.batch * a.kv_heads; }

std::vector<Finding> check(const RuleInput& input) {
  const std::int64_t sms = std::max(input.device().sms, 1);
  const CacheReads reads = find_cache_reads(input, [&](const Op&, const Attention& a) {
    return a.kv_len >= kLongCache && 2 * blocks_of(a) <= sms && !a.values_in_keys;
  });
  if (reads.time_share < kMinShare) return {};
  const Op& op = input.workload.ops[reads.groups.front().ops.front()];
  const auto& a = std::get<Attention>(op.body);
  Finding finding = finding_at_groups(
      input, reads.groups,
      fmt::format("{} sequence{} with {} key-value heads make {} thread blocks for {} SMs unless "
                  "the keys are split",
                  a.batch, a.batch == 1 ? "" : "s", a.kv_heads, blocks_of(a), sms),
      {"Use a kernel that splits the keys, as this time assumes: FlashAttention, FlashInfer and "
       "vLLM do by default; a kernel of your own needs a pass that combines the parts",
       Exactness::exact_arithmetic},
      std::nullopt);
  finding.evidence = {
      Evidence::published("Flash-Decoding for long-context inference, PyTorch blog, 2023")};
  return {finding};
}

}  // namespace attention_keys_need_splitting_rule

extern const Rule attention_keys_need_splitting{
    .id = "attention/keys-need-splitting",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Few sequences leave SMs idle unless their keys are split",
    .doc = attention_keys_need_splitting_rule::kDoc,
    .in_ops = attention_keys_need_splitting_rule::check};

}  // namespace rooftile
