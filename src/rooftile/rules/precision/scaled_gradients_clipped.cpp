#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaled_gradients_clipped_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Gradient clipping between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` without
`scaler.unscale_(optimizer)` before it.

## Why it costs time
It does not: it breaks the training. The gradients are larger by the scale, 65536 at first, so a
threshold of 1 clips them all to nearly nothing, and the effective threshold changes whenever the
scale does.

## How to fix
Call `scaler.unscale_(optimizer)` once per optimizer step, directly before clipping. `scaler.step`
knows that it happened.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The scaler is off (`enabled=False`).
- The gradients are divided by `scaler.get_scale()` by hand before.
- Only a norm is read for a log, and the log divides by the scale.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Gradient clipping".
)md";

using namespace source;

// The optimizer that the same function steps through the scaler later, for the fix.
const Expr* stepped_after(const ScaledPass& pass, std::size_t i) {
  for (std::size_t j = i + 1; j < pass.events.size(); ++j) {
    const ScalingEvent& later = pass.events[j];
    if (later.kind != ScalingKind::scaler_step) continue;
    if (!exclude_each_other(*later.at, *pass.events[i].at)) return later.optimizer;
  }
  return nullptr;
}

Fix fix_for(const Call& clip, const ScalingEvent& backward, const Expr& optimizer) {
  const File& file = *backward.at->call->file;
  const File& stepped_in = *optimizer.statement->file;
  const std::string scaler = code_text(file, backward.scaler);
  const std::string stepped = code_text(stepped_in, &optimizer);
  Fix fix{fmt::format("Call {}.unscale_({}) before clipping, so that the threshold meets gradients "
                      "without the scale",
                      scaler, stepped),
          Exactness::changes_numerics};
  const bool is_in_scope = optimizer.statement->function == clip.function &&
                           backward.at->call->function == clip.function;
  if (!is_in_scope || backward.scaler == nullptr) return fix;
  const std::string_view steps = whole_code(stepped_in, &optimizer);
  add_edit(
      insert_line_before(*clip.statement,
                         fmt::format("{}.unscale_({})", whole_code(file, backward.scaler), steps)),
      fix);
  return fix;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::clip) continue;
      const Call& clip = *pass.events[i].at->call;
      const ScalingEvent* backward = scaled_backward_before(pass.events, i);
      const Expr* optimizer = stepped_after(pass, i);
      if (backward == nullptr || optimizer == nullptr || is_scaler_off(facts, *backward)) continue;
      if (!seen.insert(&clip).second) continue;
      Finding finding = finding_at(
          clip,
          fmt::format("{} sees gradients that {} has multiplied, by 65536 at first: the threshold "
                      "cuts nearly every step",
                      clip.method, code_text(*backward->at->call->file, backward->scaler)),
          fix_for(clip, *backward, *optimizer));
      finding.evidence = {
          Evidence::found(fmt::format("scaled backward at {}, no unscale_ on the way here",
                                      place_text(*backward->at->call, *clip.file))),
          Evidence::published(
              "unscale first",
              "PyTorch notes, Automatic Mixed Precision examples, Gradient clipping")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_scaled_gradients_clipped_rule

extern const Rule precision_scaled_gradients_clipped{
    .id = "precision/scaled-gradients-clipped",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradients are clipped while they still carry the loss scale",
    .doc = precision_scaled_gradients_clipped_rule::kDoc,
    .in_scripts = precision_scaled_gradients_clipped_rule::find};

}  // namespace rooftile
