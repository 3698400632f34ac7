#include <fmt/format.h>

#include "rooftile/rules/group_finding.h"
#include "rooftile/rules/thresholds.h"

namespace rooftile {

// sizes_in_source.cpp
std::vector<Finding> narrow_heads_in_source(const source::SourceFacts& facts);

namespace sizing_narrow_heads_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Attention with heads narrower than 64 that together make a multiple of 64. Design-time information,
hidden unless asked for.

In training scripts: attention layers of `torch.nn` with heads under 32 or of no multiple of 8.

## Why it costs time
The scores cost as much for a narrow head as for a wide one, because the softmax does not depend on
the head size, and the GEMMs over a short head use the Tensor Cores badly. Half as many heads of
twice the size halve that part.

## How to fix
For the next model choose fewer heads of size 64 or 128 with the same total width.

## How the saving is estimated
The time model compares both splits of the same width.

## When not to
- Never for a trained model; accuracy decides how many heads there are.
- With fused attention the head size only has to be large enough to keep the cores busy; larger
  heads than 128 gain nothing.

## Evidence
- Anthony et al., "The Case for Co-Designing Model Architectures with Hardware" (2024): head sizes
  divisible by a large power of two, and as few heads as accuracy allows.
)md";

constexpr std::int64_t kWide = 64;
constexpr double kMinShare = threshold::kBeyondModelError;
constexpr double kMinGain = threshold::kBeyondModelError;

bool has_narrow_heads(const Op& op) {
  const auto* a = std::get_if<Attention>(&op.body);
  return a != nullptr && a->head_dim < kWide && a->head_dim == a->value_dim &&
         a->heads * a->head_dim % kWide == 0 && a->kv_heads * a->head_dim % kWide == 0 &&
         a->query_len > 1;
}

Op with_wide_heads(const Op& op) {
  Op changed = op;
  auto& a = std::get<Attention>(changed.body);
  a.heads = a.heads * a.head_dim / kWide;
  a.kv_heads = a.kv_heads * a.head_dim / kWide;
  a.head_dim = a.value_dim = kWide;
  return changed;
}

std::vector<Finding> check_operations(const RuleInput& input) {
  std::vector<Finding> findings;
  for (const LayerGroup& group :
       group_equal_layers(input.workload, input.analysis, has_narrow_heads)) {
    if (group.time_share < kMinShare) continue;
    const auto saving = saving_if_all(input, group, with_wide_heads);
    const Seconds total = time_of(input, group).value_or(Seconds(0));
    if (!saving || saving->expected < kMinGain * total) continue;
    const auto& a = std::get<Attention>(input.workload.ops[group.ops.front()].body);
    Finding finding = finding_at_groups(
        input, {group},
        fmt::format("{} heads of size {}: narrow heads repeat the softmax for little work", a.heads,
                    a.head_dim),
        {fmt::format("In the next model choose {} heads of size {}", a.heads * a.head_dim / kWide,
                     kWide),
         Exactness::changes_training},
        saving);
    finding.evidence = {Evidence::published(
        "fewer, wider heads", "Anthony et al., Co-Designing Model Architectures, 2024")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sizing_narrow_heads_rule

extern const Rule sizing_narrow_heads{.id = "sizing/narrow-heads",
                                      .level = Level::info,
                                      .cause = Cause::none,
                                      .summary = "Attention heads narrower than 64",
                                      .doc = sizing_narrow_heads_rule::kDoc,
                                      .in_ops = sizing_narrow_heads_rule::check_operations,
                                      .in_scripts = narrow_heads_in_source};

}  // namespace rooftile
