// How the time divides between matrix products and everything else.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/coverage.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/replacement.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {
namespace memory_bound_dominates_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A network that spends more than half of its time in memory-bound operations: normalisations,
activations, adds, softmaxes, pooling, copies. The optimizer's step, which also waits for memory, is not
among them; its share is named beside theirs.

## Why it costs time
These operations do a few operations per byte. Better shapes, lower precision of the GEMMs, or more
Tensor Core throughput leave them as they are, so they cap what such changes can gain (Amdahl's law).

## How to fix
Fuse them (`torch.compile`), keep activations in 16 bits, and use a larger or wider model where that is
open: GEMMs grow faster than the traffic around them.

## How the saving is estimated
No saving is given. The message states the most that faster GEMMs could ever give.

## When not to
- It is an observation, not a fault. Small networks are like this.
- Not reported where less than nine tenths of the operations have a time.

## Evidence
- NVIDIA, Memory-Limited Layers User's Guide: small networks are dominated by these layers.
- GTC 2019, session S9143: with half of the time in Tensor Core work, the gain from faster Tensor Cores
  is at most two times.
)md";

constexpr double kDominantShare = threshold::kMost;

bool is_memory_bound_kind(const Op& op) {
  return !is_matrix_op(op) && !std::holds_alternative<Collective>(op.body) &&
         !std::holds_alternative<OptimizerStep>(op.body);
}

// The optimizer waits for memory too, but no fusion with the network's operations shortens it.
std::string optimizer_text(const RuleInput& input) {
  constexpr double kShown = 0.005;
  const LayerGroup steps = select(input, [&](std::size_t op) {
    return std::holds_alternative<OptimizerStep>(input.workload.ops[op].body);
  });
  return steps.time_share < kShown
             ? ""
             : fmt::format(", the optimizer another {}", share_text(steps.time_share));
}

std::vector<Finding> check(const RuleInput& input) {
  // Not every kernel of a trace belongs to a known operation; its own breakdown tells.
  if (!input.workload.traces.empty()) return {};
  // Shares of a part of the network tell nothing of the whole.
  if (!known_runs(input.workload, input.analysis).are_enough()) return {};
  LayerGroup others =
      select(input, [&](std::size_t op) { return is_memory_bound_kind(input.workload.ops[op]); });
  const LayerGroup products =
      select(input, [&](std::size_t op) { return is_matrix_op(input.workload.ops[op]); });
  if (others.time_share < kDominantShare || products.time_share <= 0) return {};
  // The one that takes most of the time comes first.
  const auto largest =
      std::max_element(others.ops.begin(), others.ops.end(), [&](std::size_t a, std::size_t b) {
        return input.analysis.ops[a].time_share < input.analysis.ops[b].time_share;
      });
  others.ops = {*largest};
  Finding finding = finding_at_groups(
      input, {others},
      fmt::format("Memory-bound operations take {} of the time{} and GEMMs {}: "
                  "even free GEMMs would make this at most {:.1f} times as fast.",
                  share_text(others.time_share), optimizer_text(input),
                  share_text(products.time_share), 1 / (1 - products.time_share)),
      {"Fuse operations and keep activations in 16 bits before tuning matrix shapes.",
       Exactness::not_applicable},
      std::nullopt);
  finding.evidence = {Evidence::estimated("Amdahl's law over the estimated times.")};
  return {finding};
}

}  // namespace memory_bound_dominates_rule

extern const Rule memory_bound_dominates{.id = "memory_bound/dominates",
                                         .level = Level::info,
                                         .cause = Cause::none,
                                         .summary = "Memory-bound operations take most of the time",
                                         .doc = memory_bound_dominates_rule::kDoc,
                                         .in_ops = memory_bound_dominates_rule::check};

}  // namespace rooftile
