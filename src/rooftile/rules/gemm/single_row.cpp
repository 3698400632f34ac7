#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace gemm_single_row_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Layers that multiply a weight matrix with at most 8 rows, as a decode step does, and together take a
visible part of the time. All of them are one finding.

## Why it costs time
Each weight is read for one or a few multiplications: the time is the size of the weights divided by
the memory bandwidth. It is not a fault, only the reason why no other advice about these layers is
given.

## How to fix
Batch requests, store the weights in fewer bits, and replay the step from a CUDA graph so that
launches cost nothing. Never pad one row to eight: the zeros are multiplied for nothing.

## How the saving is estimated
No saving is given. The message says how long reading the weights takes at the full memory
bandwidth, which is the floor.

## When not to
Latency may allow neither batching nor quantization; then this is simply the cost.

## Evidence
- NVIDIA Matrix Multiplication Background User's Guide, "Math and Memory Bounds": GEMMs with a
  single row or column are memory-bound on every GPU, with less than one multiply-add per byte.
- PyTorch Inductor, `pad_mm`: dimensions of 1 are never padded.
)md";

constexpr double kMinShare = threshold::kBeyondModelError;
constexpr std::int64_t kFewRows = 8;

bool is_vector_product(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op.body);
  return gemm != nullptr && gemm->weight_is_parameter && op.phase == Phase::forward &&
         (gemm->m <= kFewRows || gemm->n == 1);
}

std::vector<Finding> check(const RuleInput& input) {
  const std::vector<LayerGroup> groups =
      group_equal_layers(input.workload, input.analysis, is_vector_product);
  double share = 0;
  Bytes traffic;
  std::int64_t rows = 0;
  for (const LayerGroup& group : groups) {
    const Op& op = input.workload.ops[group.ops.front()];
    const auto& gemm = std::get<Gemm>(op.body);
    share += group.time_share;
    rows = std::max(rows, std::min(gemm.m, gemm.n));
    traffic += input.analysis.ops[group.ops.front()].cost.bytes *
               count_runs(input.workload, group, Phase::forward);
  }
  if (share < kMinShare) return {};
  Finding finding = finding_at_groups(
      input, groups,
      fmt::format("{} of the time goes into GEMMs of at most {} row{}: reading {} "
                  "takes at least {}",
                  share_text(share), rows, rows == 1 ? "" : "s", traffic_text(traffic),
                  time_text(traffic / input.device().dram_bandwidth)),
      {"Batch requests, store the weights in fewer bits or replay a CUDA graph; padding the rows "
       "gains nothing",
       Exactness::not_applicable},
      std::nullopt);
  finding.evidence = {Evidence::published(
      "always memory-bound",
      "NVIDIA Matrix Multiplication Background User's Guide, Math and Memory Bounds")};
  return {finding};
}

}  // namespace gemm_single_row_rule

extern const Rule gemm_single_row{.id = "gemm/single-row",
                                  .level = Level::info,
                                  .cause = Cause::memory,
                                  .summary = "Weights are read for a handful of rows",
                                  .doc = gemm_single_row_rule::kDoc,
                                  .in_ops = gemm_single_row_rule::check};

}  // namespace rooftile
