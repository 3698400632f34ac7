#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_penalty_of_scaled_gradients_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.autograd.grad(outputs=scaler.scale(loss), …, create_graph=True)` in a function that never asks
for `scaler.get_scale()`.

## Why it costs time
It does not: the penalty is too large by the scale, 65536 at first, and changes whenever the scale does.

## How to fix
Divide the gradients by `scaler.get_scale()`, out of place, before the penalty is computed from them.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The function divides by the scale under some name of its own.
- The scaler is off.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Gradient penalty".
)md";

using namespace source;

// The scaler of `outputs=scaler.scale(loss)`; null for other outputs.
const Expr* scaler_of(const Argument* outputs) {
  const Expr* scaler = nullptr;
  visit(outputs == nullptr ? nullptr : resolved(outputs->value), [&](const Expr& part) {
    const bool scales = part.call() != nullptr && part.call()->method == "scale" &&
                        part.call()->receiver != nullptr &&
                        part.call()->receiver->type->is(TypeKind::scaler);
    if (scales) scaler = part.call()->receiver;
    return scaler == nullptr;
  });
  return scaler;
}

// `scaler.get_scale()`, `inv_scale`, `unscale(grads)`: some way to take the scale out again.
bool takes_scale_out(const Call& call) {
  const File& file = *call.file;
  const std::string_view text =
      call.function == nullptr ? file.text : file.slice(call.function->statement->range);
  return contains_any(text, {"get_scale", "_scale", "unscale", "_growth_tracker"});
}

Finding finding_for(const Call& grad, const Expr& scaler) {
  const std::string name = code_text(*grad.file, &scaler);
  Finding finding = finding_at(
      grad,
      fmt::format("the gradients carry the scale of {}, 65536 at first, and nothing divides them "
                  "by it: so does the penalty",
                  name),
      {fmt::format("Divide the gradients by {}.get_scale(), out of place, before the penalty",
                   name),
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::published("PyTorch notes, Automatic Mixed Precision examples, Gradient penalty")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.calls("torch.autograd.grad").empty()) return findings;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (const IteratedCall& each : pass.iteration->calls) {
      const Call& grad = *each.call;
      if (grad.name != "torch.autograd.grad" || !seen.insert(&grad).second) continue;
      const Expr* scaler = scaler_of(grad.argument("outputs", 0));
      if (scaler == nullptr || takes_scale_out(grad)) continue;
      if (!facts.argument(grad, "create_graph", 4).is_true()) continue;
      const bool is_off = std::ranges::any_of(
          pass.events, [&](const ScalingEvent& event) { return is_scaler_off(facts, event); });
      if (!is_off) findings.push_back(finding_for(grad, *scaler));
    }
  }
  return findings;
}

}  // namespace precision_penalty_of_scaled_gradients_rule

extern const Rule precision_penalty_of_scaled_gradients{
    .id = "precision/penalty-of-scaled-gradients",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradient penalty is computed from gradients that carry the loss scale",
    .doc = precision_penalty_of_scaled_gradients_rule::kDoc,
    .in_scripts = precision_penalty_of_scaled_gradients_rule::find};

}  // namespace rooftile
