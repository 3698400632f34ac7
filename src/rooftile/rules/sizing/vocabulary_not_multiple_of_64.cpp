#include <fmt/format.h>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/vocabulary.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace sizing_vocabulary_not_multiple_of_64_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A vocabulary that meets the 16-byte condition but is not a multiple of 64. Design-time information,
hidden unless asked for.

## Why it costs time
Hardly: rows of 128 bytes and even tiles are worth about a per cent. The number matters more for
tensor parallelism, which needs the vocabulary divisible by the number of ranks.

## How to fix
Choose the next multiple of 64, times the number of tensor-parallel ranks.

## How the saving is estimated
No saving is given: it is below the time model's error.

## When not to
Not worth converting a checkpoint for. A vocabulary that is not a multiple of 8 is another matter:
see `gemm/odd-vocabulary`.

## Evidence
- Anthony et al., "The Case for Co-Designing Model Architectures with Hardware" (2024): vocabulary
  divisible by 64.
- ML Engineering book (S. Bekman): multiples of 32 to 256 are within 1 % on an H100.
)md";

constexpr std::int64_t kStep = kVocabularyStep;
constexpr double kMinShare = threshold::kShowsInARun;

bool is_output_layer(const RuleInput& input, const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->m > 1 && gemm->n % kStep != 0 &&
         gemm->n % alignment_elements(op.dtypes.input) == 0 &&
         input.device().has_tensor_cores(op.dtypes.input) && uses_vocabulary(input.workload, *gemm);
}

std::vector<Finding> check(const RuleInput& input) {
  std::vector<Finding> findings;
  const auto wanted = [&](const Op& op) { return is_output_layer(input, op); };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (group.time_share < kMinShare || !is_math_bound(input, group)) continue;
    const std::int64_t size = std::get<Gemm>(input.workload.ops[group.ops.front()].body).n;
    const std::int64_t to = round_up(size, kStep);
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("vocabulary {} meets the 16-byte condition, but is not a multiple of {}", size,
                    kStep),
        {fmt::format("In the next model choose {}: +{} rows, {} parameters of the table", to,
                     to - size,
                     change_text(static_cast<double>(to) / static_cast<double>(size) - 1)),
         Exactness::changes_training},
        std::nullopt);
    finding.evidence = {Evidence::published(
        "vocabulary divisible by 64", "Anthony et al., Co-Designing Model Architectures, 2024")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sizing_vocabulary_not_multiple_of_64_rule

extern const Rule sizing_vocabulary_not_multiple_of_64{
    .id = "sizing/vocabulary-not-multiple-of-64",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Vocabulary is a multiple of 8, but not of 64",
    .doc = sizing_vocabulary_not_multiple_of_64_rule::kDoc,
    .in_ops = sizing_vocabulary_not_multiple_of_64_rule::check};

}  // namespace rooftile
