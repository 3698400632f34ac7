#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace distributed_gradients_reduced_after_unscale_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.distributed.all_reduce` of gradients between `scaler.unscale_(optimizer)` and
`scaler.step(optimizer)`.

## Why it costs time
It does not: `unscale_` looks for inf and NaN in the gradients of its own rank. Where one rank finds some, the
sum takes them to all ranks, and those that found none step with them. The weights differ from then on, or are
NaN.

## How to fix
Sum the gradients after backward and before `unscale_`, while they carry the scale, as
`DistributedDataParallel` does: inf of one rank then is found by all. Or use `DistributedDataParallel`.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Gradients that are summed before `unscale_`: all ranks have one scale as long as they skip the same steps.
- The flag for inf is exchanged too, as `ShardedGradScaler` does.
- Norms and losses that are summed for a log.

## Evidence
- PyTorch documentation, `torch.amp.GradScaler`: `unscale_` records whether it found inf; `step` skips by that.
- PyTorch, `torch.distributed.fsdp.sharded_grad_scaler`: exchanges the flag, because gradients differ by rank.
)md";

using namespace source;

bool reduces_gradients(const Call& call) {
  if (call.name != "torch.distributed.all_reduce" || call.arguments.empty()) return false;
  const Expr* reduced = call.arguments.front().value;
  // The flat copy of all gradients counts, their norm does not.
  return !uses_name(reduced, {"norm"}) &&
         (uses_name(reduced, {"grad"}) || uses_name(resolved(reduced), {"grad", "grads"}));
}

// The event before the call in the order of the pass, on the same path.
const ScalingEvent* last_before(const ScaledPass& pass, std::size_t call, ScalingKind kind) {
  const ScalingEvent* last = nullptr;
  for (const ScalingEvent& event : pass.events) {
    const auto at = static_cast<std::size_t>(event.at - pass.iteration->calls.data());
    const bool is_one = event.kind == kind && at < call &&
                        !exclude_each_other(*event.at, pass.iteration->calls[call]);
    if (is_one) last = &event;
  }
  return last;
}

bool steps_after(const ScaledPass& pass, std::size_t call) {
  return std::ranges::any_of(pass.events, [&](const ScalingEvent& event) {
    const auto at = static_cast<std::size_t>(event.at - pass.iteration->calls.data());
    return event.kind == ScalingKind::scaler_step && at > call;
  });
}

bool exchanges_flag(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return std::ranges::any_of(programs, [](const Program* program) {
    return mentions(*program, {"found_inf", "found_inf_per_device", "ShardedGradScaler"});
  });
}

Finding finding_for(const Call& call, const ScalingEvent& unscale) {
  Finding finding = finding_at(
      call,
      "the gradients are summed after each rank has looked for inf in its own: a rank that found "
      "none steps with the inf of another",
      {fmt::format("Move it before {}.unscale_, while the gradients carry the scale, as "
                   "DistributedDataParallel does",
                   code_text(*unscale.at->call->file, unscale.scaler)),
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::found(fmt::format("unscale_ at {}", place_text(*unscale.at->call, *call.file))),
      Evidence::published("unscale_ finds inf, step skips by that",
                          "PyTorch documentation, torch.amp.GradScaler")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  if (facts.calls("torch.distributed.all_reduce").empty()) return findings;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (std::size_t i = 0; i < pass.iteration->calls.size(); ++i) {
      const Call& call = *pass.iteration->calls[i].call;
      if (!reduces_gradients(call) || exchanges_flag(facts, *call.file)) continue;
      const ScalingEvent* unscale = last_before(pass, i, ScalingKind::unscale);
      if (unscale == nullptr || !steps_after(pass, i) || is_scaler_off(facts, *unscale)) continue;
      if (seen.insert(&call).second) findings.push_back(finding_for(call, *unscale));
    }
  }
  return findings;
}

}  // namespace distributed_gradients_reduced_after_unscale_rule

extern const Rule distributed_gradients_reduced_after_unscale{
    .id = "distributed/gradients-reduced-after-unscale",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Gradients are summed over ranks after each rank looked for inf in its own",
    .doc = distributed_gradients_reduced_after_unscale_rule::kDoc,
    .in_scripts = distributed_gradients_reduced_after_unscale_rule::find};

}  // namespace rooftile
