#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_backward_bypasses_scaler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A plain `loss.backward()` followed by `scaler.step(optimizer)` of an enabled scaler on the same
path.

## Why it costs time
It does not: `scaler.step` divides the gradients by the scale, so the optimizer sees nearly
nothing.

## How to fix
`scaler.scale(loss).backward()`.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The scaled backward stands in another branch.
- The scaler is off, or an option decides.

## Evidence
- PyTorch documentation, `torch.amp.GradScaler.step`.
)md";

using namespace source;

bool has_scaled_backward(const std::vector<ScalingEvent>& events, std::size_t step) {
  for (std::size_t j = 0; j < events.size(); ++j) {
    if (events[j].kind != ScalingKind::scaled_backward) continue;
    if (!exclude_each_other(*events[j].at, *events[step].at)) return true;
  }
  return false;
}

// Whether code between the two calls handles gradients itself, which a scale changes.
bool uses_gradients_between(const ScaledPass& pass, const Call& backward, const Call& step) {
  const Loop* loop = pass.iteration->loop;
  const FunctionDef* function = pass.iteration->function;
  if (loop == nullptr && function == nullptr) return false;
  return any_statement(
      loop != nullptr ? loop->statement->body : function->body, [&](const Statement& statement) {
        const bool is_between = statement.file == backward.file &&
                                statement.range.begin > backward.open_paren &&
                                statement.range.end < step.open_paren;
        return is_between &&
               (uses_name(statement.target, {"grad"}) || uses_name(statement.value, {"grad"}));
      });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.constructions(TypeKind::scaler).empty()) return findings;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    const std::vector<ScalingEvent>& events = pass.events;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind != ScalingKind::scaler_step || may_scaler_be_off(facts, events[i]))
        continue;
      const ScalingEvent* last = backward_before(events, i);
      if (last == nullptr || last->kind != ScalingKind::backward) continue;
      const Call& backward = *last->at->call;
      const Call& step = *events[i].at->call;
      if (has_scaled_backward(events, i) || !seen.insert(&backward).second) continue;
      const std::string scaler = code_text(*step.file, events[i].scaler);
      const std::string loss = receiver_text(backward);
      Fix fix{fmt::format("Call {}.scale({}).backward()", scaler, loss),
              Exactness::changes_numerics};
      const std::string_view written = whole_code(*step.file, events[i].scaler);
      if (backward.function == step.function && !written.empty() &&
          !uses_gradients_between(pass, backward, step)) {
        add_edit(replace(*backward.file, backward.receiver->range,
                         fmt::format("{}.scale({})", written,
                                     whole_code(*backward.file, backward.receiver))),
                 fix);
      }
      Finding finding = finding_at(
          backward,
          fmt::format(
              "{}.backward() makes unscaled gradients, and {}.step then divides them by the "
              "scale, 65536 at first",
              loss, scaler),
          std::move(fix));
      finding.evidence = {
          Evidence::found(fmt::format("scaler.step at {}", place_text(step, *backward.file))),
          Evidence::published("unscales the gradients first",
                              "PyTorch torch.amp, GradScaler.step")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_backward_bypasses_scaler_rule

extern const Rule precision_backward_bypasses_scaler{
    .id = "precision/backward-bypasses-scaler",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Scaler steps on gradients of a loss that was never scaled",
    .doc = precision_backward_bypasses_scaler_rule::kDoc,
    .in_scripts = precision_backward_bypasses_scaler_rule::find};

}  // namespace rooftile
