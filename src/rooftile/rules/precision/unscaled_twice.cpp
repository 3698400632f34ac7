#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_unscaled_twice_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Two `scaler.unscale_(optimizer)` for one optimizer on one path, with neither `scaler.step` nor
`scaler.update` between them.

## Why it costs time
It does not: the second call raises `RuntimeError: unscale_() has already been called on this
optimizer since the last update()`.

## How to fix
Unscale once, after the last backward of the step and before clipping.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Each call is of another optimizer.
- The two stand in branches that exclude each other.
- `scaler.step` and `scaler.update` lie between them.

## Evidence
- PyTorch documentation, `torch.amp.GradScaler.unscale_`: "should only be called once per optimizer
  per step call".
)md";

using namespace source;

const ScalingEvent* unscaled_before(const std::vector<ScalingEvent>& events, std::size_t i) {
  for (std::size_t j = i; j-- > 0;) {
    const ScalingEvent& earlier = events[j];
    if (exclude_each_other(*earlier.at, *events[i].at)) continue;
    if (earlier.kind == ScalingKind::scaler_update) return nullptr;
    const bool is_same = may_be_same_optimizer(earlier, events[i], true);
    if (earlier.kind == ScalingKind::scaler_step && is_same) return nullptr;
    if (earlier.kind == ScalingKind::unscale && is_same && earlier.at->call != events[i].at->call) {
      return &earlier;
    }
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.events.size(); ++i) {
      if (pass.events[i].kind != ScalingKind::unscale) continue;
      const ScalingEvent* first = unscaled_before(pass.events, i);
      const Call& call = *pass.events[i].at->call;
      if (first == nullptr || is_scaler_off(facts, *first) || !seen.insert(&call).second) continue;
      Fix fix{"Keep one unscale_ per optimizer and step: remove this one", Exactness::bit_exact};
      if (call.statement->value == call.expr) add_edit(remove_statement(*call.statement), fix);
      Finding finding = finding_at(
          call,
          fmt::format("{} is unscaled a second time before its step: unscale_ raises RuntimeError",
                      code_text(*call.file, pass.events[i].optimizer)),
          std::move(fix));
      finding.evidence = {Evidence::found(fmt::format("first unscale_ at {}",
                                                      place_text(*first->at->call, *call.file))),
                          Evidence::published("once per optimizer per step call",
                                              "PyTorch torch.amp, GradScaler.unscale_")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_unscaled_twice_rule

extern const Rule precision_unscaled_twice{
    .id = "precision/unscaled-twice",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradients of one optimizer are unscaled twice before its step",
    .doc = precision_unscaled_twice_rule::kDoc,
    .in_scripts = precision_unscaled_twice_rule::find};

}  // namespace rooftile
