#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_penalty_unscaled_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.autograd.grad(outputs=loss, …, create_graph=True)` in an iteration whose loss goes through a
`GradScaler`, where the outputs are not scaled.

## Why it costs time
It does not: gradients in fp16 below 6e-8 become zero, and the penalty is computed from what is
left.

## How to fix
Scale the outputs, take the gradients, divide by `scaler.get_scale()`, and compute the penalty
under autocast.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Autocast is off around the call.
- The scaler is off.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Gradient penalty".
)md";

using namespace source;

bool is_scaled(const Expr* outputs) {
  return any_inside(resolved(outputs), [](const Expr& part) {
    return part.call() != nullptr && part.call()->method == "scale";
  });
}

bool is_outside_mixed_precision(const SourceFacts& facts, const Call& call) {
  return all_ways(facts, call, [&](const Way& way) {
    const auto around = autocast_around(facts, way);
    return around && around->is_off;
  });
}

const ScalingEvent* scaled_after(const ScaledPass& pass, std::size_t at) {
  const IteratedCall& grad = pass.iteration->calls[at];
  for (const ScalingEvent& event : pass.events) {
    const auto index = static_cast<std::size_t>(event.at - pass.iteration->calls.data());
    const bool follows = event.kind == ScalingKind::scaled_backward && index > at;
    if (follows && !exclude_each_other(*event.at, grad)) return &event;
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.calls("torch.autograd.grad").empty()) return {};
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.iteration->calls.size(); ++i) {
      const Call& call = *pass.iteration->calls[i].call;
      if (call.name != "torch.autograd.grad") continue;
      const Argument* outputs = call.argument("outputs", 0);
      const bool is_penalty = facts.argument(call, "create_graph", 4).is_true();
      if (!is_penalty || outputs == nullptr || is_scaled(outputs->value)) continue;
      const ScalingEvent* backward = scaled_after(pass, i);
      if (backward == nullptr || is_scaler_off(facts, *backward)) continue;
      if (is_outside_mixed_precision(facts, call) || !seen.insert(&call).second) continue;
      const std::string scaler = code_text(*backward->at->call->file, backward->scaler);
      const std::string what = code_text(*call.file, outputs->value);
      Finding finding = finding_at(
          call,
          fmt::format("the gradients of {} are taken without the scale: they underflow in fp16 "
                      "before they enter a loss that {} scales",
                      what, scaler),
          {fmt::format(
               "Take the gradients of {}.scale({}) and divide them by {}.get_scale(), out of "
               "place, before the penalty",
               scaler, what, scaler),
           Exactness::changes_numerics});
      finding.evidence = {
          Evidence::found(
              fmt::format("scaled backward at {}", place_text(*backward->at->call, *call.file))),
          Evidence::published(
              "PyTorch notes, Automatic Mixed Precision examples, Gradient penalty")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_penalty_unscaled_rule

extern const Rule precision_penalty_unscaled{
    .id = "precision/penalty-unscaled",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradient penalty is taken of an unscaled loss under loss scaling",
    .doc = precision_penalty_unscaled_rule::kDoc,
    .in_scripts = precision_penalty_unscaled_rule::find};

}  // namespace rooftile
