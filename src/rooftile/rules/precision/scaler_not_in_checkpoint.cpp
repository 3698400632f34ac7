#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaler_not_in_checkpoint_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.save` of a checkpoint that contains an optimizer's `state_dict()` in a program that trains
with an enabled `GradScaler` and never saves `scaler.state_dict()`.

## Why it costs time
A resumed run starts with the initial scale again. Steps are skipped until it has halved often
enough; then it may take thousands of steps to grow back.

## How to fix
`checkpoint["scaler"] = scaler.state_dict()`, and `scaler.load_state_dict(checkpoint["scaler"])` on
resume.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- Only weights are saved: such a file is not for resuming.
- bf16 needs no scaler.

## Evidence
- PyTorch recipe "Automatic Mixed Precision", section "Saving/Resuming".
)md";

using namespace source;

bool is_state_of(const Expr& part, TypeKind kind) {
  return part.call != nullptr && part.call->method == "state_dict" &&
         part.call->receiver != nullptr && part.call->receiver->type != nullptr &&
         part.call->receiver->type->is(kind);
}

const Expr* optimizer_state(const Expr* saved) {
  const Expr* found = nullptr;
  visit(resolved(saved), [&](const Expr& part) {
    const bool is_named = part.call != nullptr && part.call->method == "state_dict" &&
                          last_name(part.call->receiver).find("optim") != std::string_view::npos;
    if (found == nullptr && (is_named || is_state_of(part, TypeKind::optimizer))) found = &part;
    return found == nullptr;
  });
  return found;
}

bool saves_scaler(const SourceFacts& facts, const Program& program) {
  const auto calls = facts.method_calls("state_dict");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    const bool is_one = is_scaler(call->receiver) ||
                        last_name(call->receiver).find("scaler") != std::string_view::npos;
    return is_one && contains(program, *call->file);
  });
}

// The first scaler that works with fp16 and that no option turns off.
const Call* enabled_scaler(const SourceFacts& facts, const Program& program) {
  const Call* found = nullptr;
  for (const Scaler& scaler : scalers_in(facts, program)) {
    if (!scaler.is_off && found == nullptr) found = scaler.call;
  }
  if (found == nullptr) return nullptr;
  for (const Autocast& autocast : autocasts_in(facts, program)) {
    if (autocast.dtype != AutocastDtype::bf16) return found;
  }
  return nullptr;
}

std::vector<Finding> check(const RuleInput& input) {
  if (input.workload.source == nullptr) return {};
  const SourceFacts& facts = *input.workload.source;
  std::vector<Finding> findings;
  std::unordered_set<const Expr*> seen;
  for (const Program* program : training_programs(facts)) {
    const Call* scaler = enabled_scaler(facts, *program);
    if (scaler == nullptr || saves_scaler(facts, *program)) continue;
    for (const Call* save : calls_in(facts, *program, {"torch.save"})) {
      if (save->arguments.empty()) continue;
      const Expr* state = optimizer_state(save->arguments.front().value);
      if (state == nullptr || !seen.insert(state).second) continue;
      Finding finding = finding_at(
          *state->call,
          "the checkpoint has the optimizer's state but not the scaler's: a resumed run starts "
          "again at a scale of 65536 and skips steps until it has fallen",
          {"Save \"scaler\": scaler.state_dict() with the optimizer, and load it on resume",
           Exactness::changes_numerics});
      finding.evidence = {fmt::format("scaler made at {}, its state_dict() is never used",
                                      place_text(*scaler, *save->file)),
                          "PyTorch recipe, Automatic Mixed Precision, Saving/Resuming"};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace precision_scaler_not_in_checkpoint_rule

extern const Rule precision_scaler_not_in_checkpoint{
    .id = "precision/scaler-not-in-checkpoint",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "the checkpoint has the optimizer but not the gradient scaler",
    .doc = precision_scaler_not_in_checkpoint_rule::kDoc,
    .check = precision_scaler_not_in_checkpoint_rule::check};

}  // namespace rooftile
