#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_unscaled_before_accumulation_ends_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`scaler.unscale_(optimizer)` on every pass of the loop while `scaler.step(optimizer)` waits for the
accumulation test.

## Why it costs time
It does not: the second micro-batch adds scaled gradients to unscaled ones, and the second
`unscale_` before an update raises.

## How to fix
Move `unscale_` and the clipping into the branch that steps.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The accumulation test is around both.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Gradient accumulation".
)md";

using namespace source;

// Null also where another step, as of a function that is called twice, runs with the unscaling.
const Branch* accumulation_test_of_step(const std::vector<ScalingEvent>& events, std::size_t i,
                                        std::vector<Branch>& extra) {
  const auto is_test = [](const Branch& branch) { return is_accumulation_test(branch); };
  bool is_guarded = false;
  for (const ScalingEvent& event : events) {
    if (event.kind != ScalingKind::scaler_step || exclude_each_other(*event.at, *events[i].at)) {
      continue;
    }
    if (!may_be_same_optimizer(event, events[i], false)) continue;
    const std::vector<Branch> conditions = extra_conditions(*event.at, *events[i].at);
    if (std::ranges::none_of(conditions, is_test)) return nullptr;
    if (!is_guarded) extra = conditions;
    is_guarded = true;
  }
  return is_guarded ? &*std::ranges::find_if(extra, is_test) : nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::unscale) continue;
      std::vector<Branch> extra;
      const Branch* test = accumulation_test_of_step(pass.events, i, extra);
      const Call& call = *pass.events[i].at->call;
      if (test == nullptr || is_scaler_off(facts, pass.events[i])) continue;
      if (!seen.insert(&call).second) continue;
      Finding finding = finding_at(
          call,
          fmt::format("unscale_ runs on every micro-batch, the step only where `{}`: the next "
                      "backward adds scaled gradients to unscaled ones, and the second call raises",
                      test->condition),
          {fmt::format("Move unscale_ and the clipping after it into `if {}`, before the step",
                       test->condition),
           Exactness::changes_numerics});
      finding.evidence = {Evidence::published(
          "unscale_ just before step, after all gradients of the step are there",
          "PyTorch notes, Automatic Mixed Precision examples, Gradient accumulation")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_unscaled_before_accumulation_ends_rule

extern const Rule precision_unscaled_before_accumulation_ends{
    .id = "precision/unscaled-before-accumulation-ends",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradients are unscaled on every micro-batch of an accumulated step",
    .doc = precision_unscaled_before_accumulation_ends_rule::kDoc,
    .in_scripts = precision_unscaled_before_accumulation_ends_rule::find};

}  // namespace rooftile
