#include <fmt/format.h>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/gemm_dims.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {

// odd_vocabulary_in_source.cpp
std::vector<Finding> odd_vocabularies_in_source(const source::SourceFacts& facts);

namespace gemm_odd_vocabulary_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An output layer over a vocabulary whose size is not a multiple of 8 (16-bit), 4 (tf32) or 16 (int8)
elements. The workload shows an embedding with the same vocabulary, so both tables grow together.

In training scripts: `nn.Embedding` of a vocabulary, written or an option's default, of 1000 entries or
more that is not a multiple of 8; and `resize_token_embeddings(len(tokenizer))` without
`pad_to_multiple_of`. At level advice.

## Why it costs time
The vocabulary is the row length of the logits, which are among the largest matrices of a language
model. Rows that do not start at 16-byte addresses rule out the fast kernels in the forward pass, in
the gradient of the activations and in the gradient of the weights.

## How to fix
Pad the embedding and the output weight with zero rows up to a multiple of 64; with tensor
parallelism up to a multiple of 64 times the number of ranks. Slice the logits back to the true
vocabulary before softmax, loss, sampling or metrics. The tokenizer stays as it is. In Hugging Face
Transformers: `model.resize_token_embeddings(pad_to_multiple_of=64)`.

## How the saving is estimated
The time model predicts the output layer with both widths, forward and gradients.

## When not to
- Padding logits are 0, not minus infinity. Without slicing or masking they shift the loss by
  ln(50304/50257) = 0.0009 under uniform logits, and sampling can return a padding id. Label
  smoothing and distillation over padded classes change the loss.
- Calling `.contiguous()` on the sliced logits copies them and brings the odd row back.
- A decode step with few tokens is memory-bound: nothing to gain, and nothing is reported.
- In fp32 on CUDA cores the size makes no difference; the finding is then information.
- Scripts: sizes computed from the data, functions that only load a pretrained checkpoint, and output
  layers that no call runs: not reported.

## Evidence
- nanoGPT, public note of its author (February 2023): 50257 to 50304 made training about 25 %
  faster.
- NVIDIA, "Tips for Optimizing GPU Performance Using Tensor Cores": pad the vocabulary to a multiple
  of 8.
- Anthony et al., "The Case for Co-Designing Model Architectures with Hardware" (2024): vocabulary
  divisible by 64.
- cuBLAS documentation, "Tensor Core Usage".
)md";

constexpr std::int64_t kFewRows = 8;  // up to here nothing but reading the table takes time

bool is_output_layer(const RuleInput& input, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->m > kFewRows && op.dtypes.input != Dtype::fp8 &&
         gemm->n * info(op.dtypes.input).bits % 128 != 0 && uses_vocabulary(input.workload, *gemm);
}

Op with_vocabulary(const Op& op, std::int64_t size) {
  Op changed = op;
  changed.body = with_size(std::get<Gemm>(op.body), GemmDim::n, size);
  return changed;
}

Fix propose(std::int64_t vocabulary, std::int64_t padded) {
  const double growth = static_cast<double>(padded) / static_cast<double>(vocabulary) - 1;
  return {fmt::format("{} → {}: +{} rows, {} parameters of the table; pad the embedding and output "
                      "weights with zero rows and slice the logits before softmax and loss",
                      vocabulary, padded, padded - vocabulary, change_text(growth)),
          Exactness::exact_arithmetic};
}

std::vector<Evidence> evidence() {
  return {Evidence::published("vocabulary 50257 -> 50304, about 25 % faster training",
                              "nanoGPT, author's note, 2023"),
          Evidence::published("16-byte rows", "cuBLAS documentation, Tensor Core Usage")};
}

// In fp32 the size costs nothing, but a reader who moves to 16 bits wants to know.
Finding note_for_later(const RuleInput& input, const LayerGroup& group, std::int64_t vocabulary) {
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("vocabulary {} is not a multiple of 8: no cost in {}, but it rules out the fast "
                  "kernels once the model runs in tf32, fp16 or bf16",
                  vocabulary, to_string(input.workload.ops[group.ops.front()].dtypes.input)),
      propose(vocabulary, round_up(vocabulary, kVocabularyStep)), std::nullopt);
  finding.own_level = Level::info;
  finding.evidence = evidence();
  return finding;
}

std::optional<Finding> judge(const RuleInput& input, const LayerGroup& group) {
  const Op& op = input.workload.ops[group.ops.front()];
  const std::int64_t vocabulary = std::get<Gemm>(op.body).n;
  if (!input.device().has_tensor_cores(op.dtypes.input)) {
    return note_for_later(input, group, vocabulary);
  }
  // One target for all tables of the vocabulary, that of sizing/vocabulary-not-multiple-of-64.
  const std::int64_t padded = round_up(vocabulary, kVocabularyStep);
  const auto pad = [&](const Op& o) { return with_vocabulary(o, padded); };
  if (!pays_to_align(input, group, pad)) return std::nullopt;
  const std::optional<Range<Seconds>> saving = saving_if_all(input, group, pad);
  if (is_pointless(saving)) return std::nullopt;
  Finding finding = finding_at_groups(
      input, {group},
      fmt::format("vocabulary {} is {}: rows of the logits are {:g}-byte aligned, the fast {} "
                  "kernels need 16 ({})",
                  vocabulary, vocabulary % 2 != 0 ? "odd" : "not a multiple of 8",
                  worst_alignment(input, group), to_string(op.dtypes.input),
                  misaligned_operands_text(input, group)),
      propose(vocabulary, padded), saving);
  soften_unless_clear(input, finding);
  note_changes(input, group, pad, finding);
  finding.evidence = evidence();
  return finding;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_output_layer(input, op); };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (group.time_share < threshold::kReported) continue;
    if (std::optional<Finding> finding = judge(input, group)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_odd_vocabulary_rule

extern const Rule gemm_odd_vocabulary{.id = "gemm/odd-vocabulary",
                                      .level = Level::warning,
                                      .level_in_scripts = Level::advice,
                                      .cause = Cause::alignment,
                                      .summary = "Vocabulary is not a multiple of 8",
                                      .doc = gemm_odd_vocabulary_rule::kDoc,
                                      .in_ops = gemm_odd_vocabulary_rule::check_operations,
                                      .in_scripts = odd_vocabularies_in_source};

}  // namespace rooftile
