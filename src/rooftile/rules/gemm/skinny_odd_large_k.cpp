#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/alignment.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"

namespace rooftile {
namespace gemm_skinny_odd_large_k_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A bf16 GEMM with an odd number of result columns and a very long inner dimension, on a GPU before
Hopper.

## Why it costs time
For these shapes cuBLAS picks a kernel that runs up to hundreds of times slower than for an even
number of columns, although the GEMM itself is memory-bound.

## How to fix
Pad the columns to a multiple of 8 and slice the result, or write the GEMM as a reduction.

## How the saving is estimated
No range is given: the slow kernel is an accident of the library that the time model does not
describe. The message quotes the predicted time of the padded GEMM.

## When not to
It does not reproduce on H100 and later, nor in fp16. Smaller inner dimensions are the business of
the alignment rule.

## Evidence
- PyTorch pull request 125650: a bf16 GEMM of 2 x 20569856 x 13 takes 449 ms on an A100, padded
  1.26 ms.
- PyTorch issue 146817: a bf16 linear layer with an odd size 100 times slower.
- PyTorch Inductor, `pad_mm`: forces padding from an inner dimension of 8,388,608.
)md";

constexpr std::int64_t kForcedPadding = 8'388'608;  // Inductor's threshold
constexpr int kHopper = 90;

// Of a product in bf16.
bool is_slow(const MatrixProduct& product) {
  return product.n > 1 && product.n % 2 != 0 && product.k >= kForcedPadding &&
         product.k > product.m && product.k > product.n;
}

std::string padded_time(const RuleInput& input, MatrixProduct product) {
  product.n = round_up(product.n, alignment_elements(product.math));
  for (MatrixOperand* operand : {&product.b, &product.out}) {
    operand->contiguous = operand->leading = round_up(operand->contiguous, 8);
  }
  const TimeEstimate time = input.model.estimate(product);
  return time_text(time.time.expected);
}

std::optional<Finding> judge(const RuleInput& input, const LayerGroup& group) {
  for (const std::size_t i : group.ops) {
    const auto& products = input.analysis.ops[i].products;
    const auto slow = std::find_if(products.begin(), products.end(), is_slow);
    if (slow == products.end()) continue;
    const std::int64_t padded = round_up(slow->n, 8);
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("{} columns with an inner dimension of {} in bf16: before Hopper the library "
                    "takes a kernel up to 350 times slower than for an even number",
                    slow->n, slow->k),
        {fmt::format("Pad the columns {} → {} and slice the result (predicted {})", slow->n, padded,
                     padded_time(input, *slow)),
         Exactness::exact_arithmetic},
        std::nullopt);
    finding.evidence = {Evidence::published("2 x 20569856 x 13 on an A100, 449 -> 1.26 ms",
                                            "PyTorch pull request 125650")};
    return finding;
  }
  return std::nullopt;
}

std::vector<Finding> check(const RuleInput& input) {
  const Device& device = input.device();
  if (device.compute_capability >= kHopper || !device.has_tensor_cores(Dtype::bf16)) return {};
  std::vector<Finding> findings;
  const auto wanted = [](const Op& op) {
    return std::holds_alternative<Gemm>(op.body) && op.dtypes.input == Dtype::bf16;
  };
  for (const LayerGroup& group : group_equal_layers(input.workload, input.analysis, wanted)) {
    if (std::optional<Finding> finding = judge(input, group)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace gemm_skinny_odd_large_k_rule

extern const Rule gemm_skinny_odd_large_k{
    .id = "gemm/skinny-odd-large-k",
    .level = Level::warning,
    .cause = Cause::alignment,
    .summary = "Few and odd columns over a very long inner dimension",
    .doc = gemm_skinny_odd_large_k_rule::kDoc,
    .in_ops = gemm_skinny_odd_large_k_rule::check};

}  // namespace rooftile
