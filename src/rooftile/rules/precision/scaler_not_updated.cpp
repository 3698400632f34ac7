#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaler_not_updated_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`scaler.step(optimizer)` in a training loop of a program that calls `scaler.update()` nowhere.

## Why it costs time
It does not: without `update` the scale never falls after an overflow, every such step is skipped,
and the scaler refuses the next `step`.

## How to fix
Call `scaler.update()` once, after the last `scaler.step` of an iteration.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- The scaler is off.
- A library or own class does the update; the rule looks for any scaler's `update` in the program.

## Evidence
- PyTorch documentation, `torch.amp.GradScaler.update`; notes, "Automatic Mixed Precision
  examples".
)md";

using namespace source;

bool updates_scaler(const SourceFacts& facts, const Program& program) {
  const auto& calls = facts.method_calls("update");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    const std::string_view name = last_name(call->receiver);
    const bool is_one = is_scaler(call->receiver) || name.find("scaler") != std::string_view::npos;
    return is_one && program.has(*call->file);
  });
}

// The last of the pass's steps, behind which the update belongs: null where they are not all
// statements of one block.
const Statement* last_step_beside(const ScaledPass& pass, const Call& step) {
  const Statement* last = nullptr;
  for (const ScalingEvent& event : pass.events) {
    if (event.kind != ScalingKind::scaler_step) continue;
    const Call& call = *event.at->call;
    const bool is_beside = call.statement->value == call.expr &&
                           call.statement->parent == step.statement->parent &&
                           call.function == step.function;
    if (!is_beside) return nullptr;
    last = call.statement;
  }
  return last;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Program*> told;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    for (const ScalingEvent& event : pass.events) {
      if (event.kind != ScalingKind::scaler_step || is_scaler_off(facts, event)) continue;
      const Call& step = *event.at->call;
      for (const Program* program : training_programs_of(facts, *step.file)) {
        if (updates_scaler(facts, *program) || !told.insert(program).second) continue;
        Fix fix{fmt::format("Call {}.update() once after the step", receiver_text(step)),
                Exactness::changes_numerics};
        if (const Statement* last = last_step_beside(pass, step)) {
          const std::string_view scaler = whole_code(*step.file, step.receiver);
          add_edit(insert_line_after(*last, fmt::format("{}.update()", scaler)), fix);
        }
        Finding finding = finding_at(
            step,
            fmt::format("{} steps but is never updated: its second step raises RuntimeError",
                        receiver_text(step)),
            std::move(fix));
        finding.evidence = {Evidence::found("no update() of a scaler in the program"),
                            Evidence::published("PyTorch torch.amp, GradScaler.update")};
        findings.push_back(std::move(finding));
        break;
      }
    }
  }
  return findings;
}

}  // namespace precision_scaler_not_updated_rule

extern const Rule precision_scaler_not_updated{
    .id = "precision/scaler-not-updated",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "GradScaler is never updated",
    .doc = precision_scaler_not_updated_rule::kDoc,
    .in_scripts = precision_scaler_not_updated_rule::find};

}  // namespace rooftile
