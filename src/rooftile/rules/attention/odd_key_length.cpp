#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/attention_chain.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {

// odd_key_length_in_source.cpp
std::vector<Finding> unaligned_padding_in_source(const source::SourceFacts& facts);

namespace attention_odd_key_length_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Attention that writes its scores to memory and has a number of keys that is not a multiple of 8 in
fp16 and bf16 (4 in tf32), such as the 197 tokens of a ViT or texts cut at 77 or 127 tokens.

In training scripts: a tokenizer or collator that pads to the longest text (`padding=True`) without
`pad_to_multiple_of`, or to a `max_length` that is not a multiple of 8, in a program that trains in 16
bits and names no fused attention. Information.

## Why it costs time
The number of keys is the row length of the scores, which both GEMMs use. Rows that do not start
at 16-byte addresses rule out the fast kernels. The number of queries does not matter. The Linear layers
see batch times length rows, which any number may be.

## How to fix
Use fused attention, which handles odd lengths by itself. Where it has to stay unfused, pad the
sequence: `pad_to_multiple_of=8` in the collator (64 on A100 and later), with the mask extended.

## How the saving is estimated
The time model predicts both GEMMs with the padded length; queries grow too where they are the
same tokens. It is reported only above 10 %, since padding adds work that grows with the square.

## When not to
- Fused kernels, flash and memory-efficient, take odd lengths: never reported. Most models of
  Transformers run scaled_dot_product_attention by default, unless `attn_implementation="eager"`.
- From 512 queries and keys on, fusing is the better advice, and another rule gives it.
- Exact only if attention mask, loss mask and pooling ignore the padding; not with batch
  normalisation or convolutions over the sequence.

## Evidence
- cuBLAS documentation, "Tensor Core Usage": leading dimensions are to be multiples of 16 bytes.
- NVIDIA, GTC 2019 talk S9143: pad sequence lengths to multiples of 8.
)md";

constexpr double kMinGain = 0.1;  // Inductor pads when the product is then 1.1 times as fast
constexpr std::int64_t kFuseInstead = 512;

bool is_odd(const RuleInput& input, const Attention& attention, Dtype dtype) {
  return input.device().has_tensor_cores(dtype) && attention.kv_len > 1 &&
         attention.kv_len % alignment_elements(dtype) != 0 &&
         std::min(attention.query_len, attention.kv_len) < kFuseInstead;
}

std::int64_t padded(std::int64_t length, Dtype dtype) {
  return round_up(length, alignment_elements(dtype));
}

Attention padded(Attention attention, Dtype dtype) {
  const bool same_tokens = attention.query_len == attention.kv_len;
  attention.kv_len = padded(attention.kv_len, dtype);
  if (same_tokens) attention.query_len = attention.kv_len;
  return attention;
}

Finding describe(const RuleInput& input, const LayerGroup& group, const Attention& attention,
                 Dtype dtype, const Range<Seconds>& saving) {
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("{} keys make score rows of {} bytes, the fast {} kernels need multiples of 16",
                  attention.kv_len,
                  attention.kv_len * static_cast<std::int64_t>(size_in_bytes(dtype)),
                  to_string(dtype)),
      {fmt::format("Use fused attention, or pad the sequence {} → {} and extend the mask",
                   attention.kv_len, padded(attention.kv_len, dtype)),
       Exactness::exact_arithmetic},
      saving);
  finding.evidence = {
      Evidence::published("leading dimensions", "cuBLAS documentation, Tensor Core Usage")};
  return finding;
}

void add_if_clear(const RuleInput& input, const LayerGroup& group, const Attention& attention,
                  Dtype dtype, const std::optional<Range<Seconds>>& saving,
                  std::vector<Finding>& findings) {
  const Seconds total = total_time(input, group).time.expected;
  if (group.time_share < threshold::kReported || !saving || saving->expected < kMinGain * total)
    return;
  findings.push_back(describe(input, group, attention, dtype, *saving));
}

void judge_operations(const RuleInput& input, std::vector<Finding>& findings) {
  const auto wanted = [&](const Op& op) {
    const auto* attention = std::get_if<Attention>(&op.body);
    return attention != nullptr && !attention->fused && is_odd(input, *attention, op.dtypes.input);
  };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    const Op& first = input.workload.ops[group.ops.front()];
    const auto saving = saving_if_all(input, group, [](const Op& op) {
      Op changed = op;
      changed.body = padded(std::get<Attention>(op.body), op.dtypes.input);
      return changed;
    });
    add_if_clear(input, group, std::get<Attention>(first.body), first.dtypes.input, saving,
                 findings);
  }
}

// The products around a softmax, with the padded length.
Op padded_product(const Op& op, const Attention& to, bool is_scores) {
  Op changed = op;
  auto& gemm = std::get<Gemm>(changed.body);
  gemm.m = to.query_len;
  (is_scores ? gemm.n : gemm.k) = to.kv_len;
  gemm.x_stride = gemm.w_stride = gemm.out_stride = 0;
  return changed;
}

struct ChainGroup {
  LayerGroup scores, values;
  Attention attention;
};

// Chains of one shape: the products of their first chain stand for all.
std::vector<ChainGroup> group_chains(const RuleInput& input) {
  std::vector<ChainGroup> groups;
  const Workload& workload = input.workload;
  for (const AttentionChain& chain : find_attention_chains(workload, input.graph)) {
    const Dtype dtype = workload.ops[chain.scores].dtypes.input;
    if (!is_odd(input, chain.attention, dtype)) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ChainGroup& other) {
      const Op& first = workload.ops[other.scores.ops.front()];
      return other.attention == chain.attention && first.dtypes.input == dtype;
    });
    if (group == groups.end()) {
      groups.push_back({{}, {}, chain.attention});
      group = std::prev(groups.end());
    }
    group->scores.ops.push_back(chain.scores);
    group->values.ops.push_back(chain.values);
  }
  return groups;
}

void judge_chains(const RuleInput& input, std::vector<Finding>& findings) {
  for (const ChainGroup& chains : group_chains(input)) {
    const Dtype dtype = input.workload.ops[chains.scores.ops.front()].dtypes.input;
    const Attention to = padded(chains.attention, dtype);
    auto saving = saving_if_all(input, chains.scores,
                                [&](const Op& op) { return padded_product(op, to, true); });
    const auto second = saving_if_all(input, chains.values,
                                      [&](const Op& op) { return padded_product(op, to, false); });
    if (saving && second) *saving += *second;
    LayerGroup all = chains.scores;
    all.ops.insert(all.ops.end(), chains.values.ops.begin(), chains.values.ops.end());
    for (const std::size_t i : all.ops) all.time_share += input.analysis.ops[i].time_share;
    add_if_clear(input, all, chains.attention, dtype, second ? saving : std::nullopt, findings);
  }
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  judge_operations(input, findings);
  judge_chains(input, findings);
  return findings;
}

}  // namespace attention_odd_key_length_rule

extern const Rule attention_odd_key_length{
    .id = "attention/odd-key-length",
    .level = Level::advice,
    .cause = Cause::alignment,
    .summary = "Unfused attention over an unaligned number of keys",
    .doc = attention_odd_key_length_rule::kDoc,
    .in_ops = attention_odd_key_length_rule::check,
    .in_scripts = unaligned_padding_in_source};

}  // namespace rooftile
