#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_several_scalers_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Two or more `GradScaler` objects of which one scales a loss and another one steps its gradients.

## Why it costs time
Each scaler finds its own scale. Once one of them has met an overflow, gradients are divided by
another number than they were multiplied with.

## How to fix
Make one `GradScaler` for the run: it scales every loss, steps every optimizer, and is updated once
per iteration.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Separate networks, each with its own optimizer and its own scaler: that works.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Working with multiple models,
  losses, and optimizers".
)md";

using namespace source;

// Two scalers that step one optimizer, or of which one only scales.
const ScalingEvent* misses_its_step(const std::vector<ScalingEvent>& events, std::size_t i) {
  const ScalingEvent* other = nullptr;
  for (const ScalingEvent& event : events) {
    if (event.kind != ScalingKind::scaler_step) continue;
    if (exclude_each_other(*event.at, *events[i].at)) continue;
    if (is_same_object(event.scaler, events[i].scaler)) return nullptr;
    other = &event;
  }
  return other;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.constructions(TypeKind::scaler).size() < 2) return {};
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::scaled_backward) continue;
      if (is_scaler_off(facts, pass.events[i])) continue;
      const ScalingEvent* step = misses_its_step(pass.events, i);
      const Call& backward = *pass.events[i].at->call;
      if (step == nullptr || !seen.insert(&backward).second) continue;
      const std::string mine = code_text(*backward.file, pass.events[i].scaler);
      const std::string theirs = code_text(*step->at->call->file, step->scaler);
      Finding finding = finding_at(
          backward,
          fmt::format("the loss is scaled by {}, but the step goes through {}: their scales differ "
                      "after the first overflow",
                      mine, theirs),
          {fmt::format("Use one scaler for the run: scale this loss with {}", theirs),
           Exactness::changes_numerics});
      finding.evidence = {
          Evidence::found(fmt::format("step at {}", place_text(*step->at->call, *backward.file))),
          Evidence::published("one scaler for all",
                              "PyTorch notes, Automatic Mixed Precision examples, Working with "
                              "multiple models, losses, and optimizers")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_several_scalers_rule

extern const Rule precision_several_scalers{.id = "precision/several-scalers",
                                            .level = Level::advice,
                                            .cause = Cause::none,
                                            .summary = "Several GradScalers serve one step",
                                            .doc = precision_several_scalers_rule::kDoc,
                                            .in_scripts = precision_several_scalers_rule::find};

}  // namespace rooftile
