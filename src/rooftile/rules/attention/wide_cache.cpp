#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/attention/cache_reads.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace attention_wide_cache_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A decode step that spends a visible part of its time reading keys and values of 16 bits from the cache.
All layers are one finding.

## Why it costs time
One new token for each sequence needs every key and value before it, and each is used for one or a
few multiplications: the time is the size of the cache divided by the memory bandwidth. Longer
sequences and larger batches make it grow, while the weights are read once for all.

## How to fix
Keep keys and values in 8 bits. vLLM: `--kv-cache-dtype fp8`; TensorRT-LLM: FP8 or INT8 KV cache;
LMDeploy: `--quant-policy 8`. The cache then also holds twice the positions, for longer sequences or
more of them.

## How the saving is estimated
The time model predicts the same attention with keys and values of one byte; it was fitted on measured
fp8 caches of an H100, whose kernels save less than half; on a GPU with the same SMs and a faster memory
(H200) it keeps their pace. At the high end half the bytes take half the time. Where only that end
is worth the change, the finding is information.

## When not to
- Accuracy on long contexts has to be checked; scales calibrated for each layer help.
- A short cache or few sequences: reading it takes no visible time, and nothing is reported.
- Latent caches (MLA) are small already and are not reported; FlashMLA has a format of its own for them.

## Evidence
- vLLM documentation, "Quantized KV Cache": fp8 halves the memory of the cache.
- LMDeploy documentation, "INT4/INT8 KV Cache": from Volta on.
- TensorRT-LLM documentation, "Numerical Precision": INT8 and FP8 KV caches.
)md";

constexpr double kMinShare = threshold::kWorthADay;
constexpr double kMinGain = threshold::kBeyondModelError;  // of the pass
constexpr int kFirstWithInt8Cache = 70;                    // compute capability; LMDeploy

bool is_wide(const Op& op, const Attention& attention) {
  return is_16_bit_float(op.dtypes.weight) && !attention.values_in_keys;
}

Op with_fp8_cache(const Op& op) {
  Op changed = op;
  changed.dtypes.weight = Dtype::fp8;
  return changed;
}

Op with_int8_cache(const Op& op) {
  Op changed = op;
  changed.dtypes.weight = Dtype::int8;
  return changed;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.device().compute_capability < kFirstWithInt8Cache) return {};
  const CacheReads reads = find_cache_reads(input, is_wide);
  if (reads.time_share < kMinShare) return {};
  const bool fp8 = input.device().has_tensor_cores(Dtype::fp8);
  const Change change = fp8 ? with_fp8_cache : with_int8_cache;
  auto saving = saving_if_all(input, reads, change);
  // Kernels that keep up with the memory take half the time for half the bytes.
  if (saving) {
    const Seconds half = 0.5 * reads.time_share * input.analysis.total.expected;
    saving->high = std::max(saving->high, half);
  }
  if (!saving || is_pointless(saving)) return {};
  const bool is_small = saving->expected < kMinGain * pass_time(input);
  if (is_small && saving->high < kMinShare * pass_time(input)) return {};
  const Op& op = input.workload.ops[reads.groups.front().ops.front()];
  Finding finding = finding_at_groups(
      input, reads.groups,
      fmt::format("{} of the time goes into reading {} of keys and values in {}",
                  share_text(reads.time_share), traffic_text(reads.keys),
                  to_string(op.dtypes.weight)),
      {fmt::format("Keep keys and values in {}: half the bytes, and room for twice the positions",
                   fp8 ? "fp8 (vLLM: --kv-cache-dtype fp8)"
                       : "int8, where the engine can (TensorRT-LLM; LMDeploy: --quant-policy 8)"),
       Exactness::changes_numerics},
      saving);
  if (is_small) finding.own_level = Level::info;
  finding.evidence = {Evidence::estimated(memory_floor_text(reads.keys, input.device()))};
  for (const LayerGroup& group : reads.groups) note_changes(input, group, change, finding);
  return {finding};
}

}  // namespace attention_wide_cache_rule

extern const Rule attention_wide_cache{
    .id = "attention/wide-cache",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "A decode step waits for keys and values of 16 bits",
    .doc = attention_wide_cache_rule::kDoc,
    .in_ops = attention_wide_cache_rule::check};

}  // namespace rooftile
