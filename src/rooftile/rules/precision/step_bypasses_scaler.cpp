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

// The scaled backward whose gradients the step takes as they are; null where there is none.
const ScalingEvent* bypassed(const SourceFacts& facts, const std::vector<ScalingEvent>& events,
                             std::size_t step) {
  if (events[step].kind != ScalingKind::optimizer_step) return nullptr;
  const ScalingEvent* backward = scaled_backward_before(events, step);
  if (backward == nullptr || backward != backward_before(events, step)) return nullptr;
  const bool is_right = is_scaler_off(facts, *backward) || has_scaled_alternative(events, step) ||
                        has_plain_alternative(events, *backward);
  return is_right ? nullptr : backward;
}

Fix fix_of(const Call& step, const ScalingEvent& backward, bool twice) {
  const File& file = *backward.at->call->file;
  Fix fix{fmt::format("Replace it with {}.step({})", code_text(file, backward.scaler),
                      receiver_text(step)),
          Exactness::changes_numerics};
  if (twice) fix.text = "Remove it: the scaler steps this optimizer already";
  const bool is_plain = step.arguments.empty() && step.statement->value == step.expr &&
                        backward.at->call->function == step.function;
  const std::string_view scaler = whole_code(file, backward.scaler);
  if (is_plain && !twice && !scaler.empty()) {
    const std::string_view optimizer = whole_code(*step.file, step.receiver);
    add_edit(replace(*step.file, step.expr->range, fmt::format("{}.step({})", scaler, optimizer)),
             fix);
  }
  return fix;
}

Finding describe(const Call& step, const ScalingEvent& backward, bool twice) {
  const Call& scaled = *backward.at->call;
  const std::string scaler = code_text(*scaled.file, backward.scaler);
  Finding finding =
      finding_at(step,
                 fmt::format("{}.step() uses gradients that {} has multiplied, by 65536 at first",
                             receiver_text(step), scaler),
                 fix_of(step, backward, twice));
  finding.evidence = {
      Evidence::found(fmt::format("scaled backward at {}", place_text(scaled, *step.file))),
      Evidence::published("unscales, and skips steps with infinities",
                          "PyTorch torch.amp, GradScaler.step")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      const ScalingEvent* backward = bypassed(facts, pass.events, i);
      if (backward == nullptr) continue;
      const Call& step = *pass.events[i].at->call;
      if (!seen.insert(&step).second) continue;
      const bool twice = is_stepped_through_scaler(pass.events, pass.events[i]);
      findings.push_back(describe(step, *backward, twice));
    }
  }
  return findings;
}

}  // namespace precision_step_bypasses_scaler_rule

extern const Rule precision_step_bypasses_scaler{
    .id = "precision/step-bypasses-scaler",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Optimizer steps on gradients that still carry the loss scale",
    .doc = precision_step_bypasses_scaler_rule::kDoc,
    .in_scripts = precision_step_bypasses_scaler_rule::find};

}  // namespace rooftile
