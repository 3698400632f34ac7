#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_step_bypasses_scaler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`optimizer.step()` after `scaler.scale(loss).backward()`, in place of `scaler.step(optimizer)` or
besides it.

## Why it costs time
It does not: the gradients are larger by the scale, and those with infinities are applied.

## How to fix
`scaler.step(optimizer)`, then `scaler.update()`.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The plain step stands in the other branch of the test that chooses mixed precision.
- `scaler.unscale_(optimizer)` was called and overflows are handled by hand.
- The scaler is off.

## Evidence
- PyTorch documentation, `torch.amp.GradScaler.step`.
)md";

using namespace source;

// The author treats both cases where the other branch of an if around it steps through the scaler.
bool has_scaled_alternative(const std::vector<ScalingEvent>& events, std::size_t i) {
  for (const ScalingEvent& event : events) {
    if (event.kind == ScalingKind::scaler_step && exclude_each_other(*event.at, *events[i].at)) {
      return true;
    }
  }
  return false;
}

bool has_plain_alternative(const std::vector<ScalingEvent>& events, const ScalingEvent& scaled) {
  for (const ScalingEvent& event : events) {
    if (event.kind == ScalingKind::backward && exclude_each_other(*event.at, *scaled.at))
      return true;
  }
  return false;
}

bool is_stepped_through_scaler(const std::vector<ScalingEvent>& events, const ScalingEvent& plain) {
  for (const ScalingEvent& event : events) {
    if (event.kind == ScalingKind::scaler_step && may_be_same_optimizer(event, plain, true)) {
      return true;
    }
  }
  return false;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.source == nullptr) return {};
  const SourceFacts& facts = *input.workload.source;
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::optimizer_step) continue;
      const Call& step = *pass.events[i].at->call;
      const ScalingEvent* last = backward_before(pass.events, i);
      const ScalingEvent* backward = scaled_backward_before(pass.events, i);
      if (backward == nullptr || backward != last || is_scaler_off(facts, *backward)) continue;
      if (has_scaled_alternative(pass.events, i)) continue;
      if (has_plain_alternative(pass.events, *backward)) continue;
      const bool twice = is_stepped_through_scaler(pass.events, pass.events[i]);
      const std::string scaler = code_text(*backward->at->call->file, backward->scaler);
      if (!seen.insert(&step).second) continue;
      Fix fix{fmt::format("Replace it with {}.step({})", scaler, receiver_text(step)),
              Exactness::changes_numerics};
      if (twice) fix.text = "Remove it: the scaler steps this optimizer already";
      const bool is_plain = step.arguments.empty() && step.statement != nullptr &&
                            step.statement->value == step.expr &&
                            backward->at->call->function == step.function;
      if (is_plain && !twice) {
        add_edit(replace(*step.file, step.expr->range,
                         fmt::format("{}.step({})", scaler, receiver_text(step))),
                 fix);
      }
      Finding finding = finding_at(
          step,
          fmt::format("{}.step() uses gradients that {} has multiplied, by 65536 at first",
                      receiver_text(step), scaler),
          std::move(fix));
      finding.evidence = {
          fmt::format("scaled backward at {}", place_text(*backward->at->call, *step.file)),
          "PyTorch torch.amp, GradScaler.step: unscales, and skips steps with infinities"};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_step_bypasses_scaler_rule

extern const Rule precision_step_bypasses_scaler{
    .id = "precision/step-bypasses-scaler",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "an optimizer steps on gradients that still carry the loss scale",
    .doc = precision_step_bypasses_scaler_rule::kDoc,
    .check = precision_step_bypasses_scaler_rule::check};

}  // namespace rooftile
