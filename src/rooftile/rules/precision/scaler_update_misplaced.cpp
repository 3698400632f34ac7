#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaler_update_misplaced_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`scaler.update()` on every micro-batch while the step waits for the accumulation test, before the
step of its iteration, or between two steps of one iteration.

## Why it costs time
It does not: the scale must be the same for all gradients that one step uses. An update in between
makes some of them too large or too small by a factor of two.

## How to fix
Call `scaler.update()` once per iteration, after the last `scaler.step`, under the same
accumulation test.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- One update per iteration, wherever the steps are.
- Separate scalers, each updated after its own step.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", sections "Gradient accumulation" and
  "Working with multiple models, losses, and optimizers".
)md";

using namespace source;

struct Misplaced {
  const ScalingEvent* step = nullptr;
  std::string message, fix;
};

bool is_step_of(const ScalingEvent& step, const ScalingEvent& update) {
  return step.kind == ScalingKind::scaler_step && is_same_object(step.scaler, update.scaler) &&
         !exclude_each_other(*step.at, *update.at);
}

// Not where another step, as of a function that is called twice, runs with the update.
std::optional<Misplaced> unguarded(const std::vector<ScalingEvent>& events, std::size_t i) {
  std::optional<Misplaced> found;
  for (const ScalingEvent& step : events) {
    if (!is_step_of(step, events[i])) continue;
    const std::vector<Branch> extra = extra_conditions(*step.at, *events[i].at);
    const auto test = std::ranges::find_if(
        extra, [](const Branch& branch) { return is_accumulation_test(branch); });
    if (test == extra.end()) return std::nullopt;
    if (found) continue;
    found = Misplaced{&step,
                      fmt::format("update() runs on every micro-batch, the step only where `{}`: "
                                  "the scale changes between gradients that are added up",
                                  test->condition),
                      fmt::format("Move update() into `if {}`, after the step", test->condition)};
  }
  return found;
}

std::optional<Misplaced> out_of_order(const std::vector<ScalingEvent>& events, std::size_t i) {
  const ScalingEvent* before = nullptr;
  const ScalingEvent* after = nullptr;
  for (std::size_t j = 0; j < events.size(); ++j) {
    if (!is_step_of(events[j], events[i])) continue;
    if (j < i) before = &events[j];
    if (j > i && after == nullptr) after = &events[j];
  }
  if (after == nullptr || after->at->call == (before != nullptr ? before->at->call : nullptr)) {
    return std::nullopt;
  }
  if (before == nullptr) {
    return Misplaced{after,
                     "update() comes before the step of the same iteration: the new scale is not "
                     "the one in the gradients",
                     "Call update() once, after the last step of the iteration"};
  }
  return Misplaced{after,
                   "update() comes between two steps of one iteration: the second step's gradients "
                   "were made for the scale before",
                   "Call update() once, after the last step of the iteration"};
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::scaler_update) continue;
      if (is_scaler_off(facts, pass.events[i])) continue;
      auto problem = unguarded(pass.events, i);
      if (!problem) problem = out_of_order(pass.events, i);
      const Call& update = *pass.events[i].at->call;
      if (!problem || !seen.insert(&update).second) continue;
      Finding finding =
          finding_at(update, problem->message, {problem->fix, Exactness::changes_numerics});
      finding.evidence = {
          Evidence::found(
              fmt::format("step at {}", place_text(*problem->step->at->call, *update.file))),
          Evidence::published("update once, after all optimizers of the iteration have stepped",
                              "PyTorch notes, Automatic Mixed Precision examples")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_scaler_update_misplaced_rule

extern const Rule precision_scaler_update_misplaced{
    .id = "precision/scaler-update-misplaced",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "GradScaler is updated at the wrong place in the step",
    .doc = precision_scaler_update_misplaced_rule::kDoc,
    .in_scripts = precision_scaler_update_misplaced_rule::find};

}  // namespace rooftile
