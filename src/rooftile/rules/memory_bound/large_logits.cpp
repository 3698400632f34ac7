// Logits that take a large part of the GPU's memory in training.
#include <fmt/format.h>

#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"

namespace rooftile {
namespace memory_bound_large_logits_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
In a training step: an output layer whose logits, tokens times vocabulary, take more than a tenth of the
GPU's memory.

## Why it costs time
Cross-entropy computes in fp32, so 16-bit logits exist twice: 2 + 4 bytes for each token and vocabulary
entry, and their gradient follows. At 32768 tokens and 128256 entries that is 23.5 GiB. The memory is missing for
a larger batch, and the loss reads and writes all of it.

## How to fix
A fused or chunked cross-entropy computes the loss a block of tokens or vocabulary at a time and never
holds all logits: Liger Kernel's fused linear cross-entropy, `cut_cross_entropy`, or a loop over chunks
with checkpointing.

## How the saving is estimated
Memory: all but one chunk of the logits. Time: no saving is given; some of the fused kernels recompute
the product.

## When not to
- Inference needs the logits of the last token only.
- Something else reads all logits: distillation, entropy terms, metrics.

## Evidence
- S. Bekman, Machine Learning Engineering Open Book, performance chapter: the fp32 logits of a
  32768-token sequence with 128256 entries take 15.7 GiB.
- Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024.
)md";

constexpr double kMinMemoryShare = 0.1;

// The logits as computed and, where they are 16-bit, the fp32 copy that the loss takes.
Bytes logits_bytes(const Op& op) {
  const auto& gemm = std::get<Gemm>(op.body);
  const double elements =
      static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.batch);
  const Bytes computed = storage(elements, op.dtypes.output);
  return is_16_bit_float(op.dtypes.output) ? computed + storage(elements, Dtype::fp32) : computed;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode != Mode::training) return {};
  const auto layer = logits_layer(input.workload);
  if (!layer) return {};
  const Op& op = input.workload.ops[*layer];
  const Bytes logits = logits_bytes(op);
  const double share = logits / input.device().dram_size;
  if (!(share > kMinMemoryShare)) return {};
  const auto& gemm = std::get<Gemm>(op.body);
  Finding finding = finding_at_groups(
      input, {group_of(input, {*layer})},
      fmt::format("The logits of {} tokens and {} classes take {}, {} of the memory "
                  "of {}; their gradient comes on top.",
                  gemm.m, gemm.n, bytes_text(logits), share_text(share), input.device().name),
      {"Use a fused or chunked cross-entropy that never holds all logits.",
       Exactness::exact_arithmetic},
      std::nullopt);
  finding.evidence = {Evidence::estimated(fmt::format(
      "{} x {} x {} bytes ({}).", gemm.m, gemm.n,
      is_16_bit_float(op.dtypes.output) ? 6.0 : size_in_bytes(op.dtypes.output),
      is_16_bit_float(op.dtypes.output) ? "16-bit logits and the fp32 copy the loss takes"
                                        : "as computed"))};
  return {finding};
}

}  // namespace memory_bound_large_logits_rule

extern const Rule memory_bound_large_logits{
    .id = "memory_bound/large-logits",
    .level = Level::advice,
    .cause = Cause::memory,
    .summary = "Logits take a large part of the GPU's memory",
    .doc = memory_bound_large_logits_rule::kDoc,
    .in_ops = memory_bound_large_logits_rule::check};

}  // namespace rooftile
