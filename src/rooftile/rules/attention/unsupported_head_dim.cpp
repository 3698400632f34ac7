#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/alignment.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace attention_unsupported_head_dim_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Fused attention in fp16 or bf16 with a head size that PyTorch's flash kernel does not take as it is:
not a multiple of 8, above 256, or different for keys and values.

## Why it costs time
`scaled_dot_product_attention` then pads internally, or falls back to another kernel; the last
resort writes all scores to memory.

## How to fix
Pad queries, keys and values with zeros to one size that the kernel takes, slice the output, and
pass the original scale 1/sqrt(head size) explicitly. For the next model choose 64 or 128.

## How the saving is estimated
Sizes that are not a multiple of 8: the time model compares both head sizes. For the other two cases
no saving is given, since it depends on the kernel that the installed PyTorch picks.

## When not to
- The limits move with versions: cuDNN's kernel takes up to 256 on recent GPUs, and models with
  different key and value sizes (multi-head latent attention) have kernels of their own.
- Decode steps of configs are those of a serving engine, whose kernels have other limits: not reported.
- Padding adds work: a head of 257 is better padded only where the fallback is the unfused one.

## Evidence
- PyTorch, `scaled_dot_product_attention` kernel selection (sdp_utils): equal head sizes up to 256
  for flash; 16-byte aligned head sizes for the memory-efficient kernel.
- PyTorch documentation, `torch.nn.attention.SDPBackend`: shows how to see which kernel runs.
)md";

constexpr std::int64_t kLargestFlash = 256;

bool has_flash_dtype(const Op& op) { return is_16_bit_float(op.dtypes.input); }

bool is_uneven(const Attention& a) { return a.head_dim % 8 != 0 || a.value_dim % 8 != 0; }

bool is_unsupported(const Op& op) {
  const auto* a = std::get_if<Attention>(&op.body);
  return a != nullptr && a->fused && !a->values_in_keys && has_flash_dtype(op) &&
         (is_uneven(*a) || std::max(a->head_dim, a->value_dim) > kLargestFlash ||
          a->head_dim != a->value_dim);
}

std::int64_t supported_dim(const Attention& a) {
  return round_up(std::max(a.head_dim, a.value_dim), 8);
}

std::string describe(const Attention& a) {
  if (is_uneven(a)) {
    return fmt::format("head size {} is not a multiple of 8: the kernel pads it in every step",
                       a.head_dim % 8 != 0 ? a.head_dim : a.value_dim);
  }
  if (a.head_dim != a.value_dim) {
    return fmt::format(
        "head sizes {} for keys and {} for values differ: PyTorch's flash kernel "
        "takes equal ones",
        a.head_dim, a.value_dim);
  }
  return fmt::format("head size {} is above {}: PyTorch's flash kernel does not take it",
                     a.head_dim, kLargestFlash);
}

Fix propose(const Attention& a) {
  const std::int64_t size = supported_dim(a);
  if (size > kLargestFlash) {
    return {fmt::format("Check which kernel runs; in the next model use more heads of at most {}",
                        kLargestFlash),
            Exactness::changes_training};
  }
  return {fmt::format("Pad q, k and v to {} with zeros, pass scale=1/sqrt({}) and slice the output",
                      size, a.head_dim),
          Exactness::exact_arithmetic};
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.mode == Mode::decode) return {};  // serving engines have kernels of their own
  std::vector<Finding> findings;
  for (const LayerGroup& group :
       group_equal_layers(input.workload, input.analysis, is_unsupported)) {
    if (group.time_share < threshold::kReported) continue;
    const auto& a = std::get<Attention>(input.workload.ops[group.ops.front()].body);
    std::optional<Range<Seconds>> saving;
    if (is_uneven(a)) {
      saving = saving_if_all(input, group, [](const Op& op) {
        Op changed = op;
        auto& attention = std::get<Attention>(changed.body);
        attention.head_dim = attention.value_dim = supported_dim(attention);
        return changed;
      });
      // The model may see only the added work; the copies that padding inside costs stay.
      if (is_pointless(saving)) saving.reset();
    }
    Finding finding = finding_at_groups(input, {group}, describe(a), propose(a), saving);
    // Models with two sizes mostly bring kernels for them.
    const bool is_usual = a.head_dim != a.value_dim;
    // Without a saving only a visible share is worth another model.
    const bool is_small = !saving && group.time_share < threshold::kBeyondModelError;
    if (!is_uneven(a) && (is_usual || is_small)) finding.own_level = Level::info;
    finding.evidence = {Evidence::published("kernel selection",
                                            "PyTorch, scaled_dot_product_attention, sdp_utils")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace attention_unsupported_head_dim_rule

extern const Rule attention_unsupported_head_dim{
    .id = "attention/unsupported-head-dim",
    .level = Level::advice,
    .cause = Cause::alignment,
    .summary = "Head size outside the flash kernel's range",
    .doc = attention_unsupported_head_dim_rule::kDoc,
    .in_ops = attention_unsupported_head_dim_rule::check};

}  // namespace rooftile
