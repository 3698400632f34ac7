#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "rooftile/analysis/source/autocast.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaler_not_in_checkpoint_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A checkpoint that contains an optimizer's `state_dict()` in a program that trains with a
`GradScaler` and never saves `scaler.state_dict()`. A scaler that an option switches on counts. One
finding for each program; it lists the other places that keep an optimizer's state.

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
- A resumed run skips some ten steps until the scale fits, so the finding is information.

## Evidence
- PyTorch recipe "Automatic Mixed Precision", section "Saving/Resuming".
)md";

using namespace source;

bool is_optimizer_state(const Call& call) {
  if (call.method != "state_dict" || call.receiver == nullptr) return false;
  const bool is_typed = call.receiver->type->is(TypeKind::optimizer);
  return is_typed || last_name(call.receiver).find("optim") != std::string_view::npos;
}

// An entry of a dictionary, an item that is set, or handed to torch.save itself: what a checkpoint
// is made of, wherever it is written.
bool is_kept(const Call& call) {
  // `optimizer.load_state_dict({**optimizer.state_dict(), **saved})` is loaded.
  for (const Expr* outer = call.expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->call() != nullptr && outer->call()->method == "load_state_dict") return false;
  }
  const Statement& statement = *call.statement;
  const bool is_item =
      statement.kind == StatementKind::assignment && statement.target->kind == ExprKind::subscript;
  if (is_item) return true;
  for (const Expr* outer = call.expr->parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == ExprKind::dict) return true;
    if (outer->call() == nullptr) continue;
    const std::string_view method = outer->call()->method;
    if (method == "dict" || method == "save" || method == "update") return true;
  }
  return false;
}

// `for key, value in kwargs.items(): data[key] = value.state_dict()` beside it: whose states those
// are is not known.
bool keeps_others(const Call& state) {
  const auto body = state.function == nullptr ? state.file->body : state.function->body;
  bool keeps = false;
  for_statements(body, [&](const Statement& statement) {
    const bool sets_item = statement.kind == StatementKind::assignment &&
                           statement.target->kind == ExprKind::subscript &&
                           statement.target->children().size() == 2 &&
                           statement.target->children()[1]->kind == ExprKind::name;
    const Call* kept = statement.value == nullptr ? nullptr : statement.value->call();
    keeps = keeps || (sets_item && kept != nullptr && kept->method == "state_dict");
  });
  return keeps;
}

bool saves_scaler(const SourceFacts& facts, const Program& program) {
  const auto& calls = facts.method_calls("state_dict");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    const bool is_one = is_scaler(call->receiver) ||
                        last_name(call->receiver).find("scaler") != std::string_view::npos;
    return is_one && program.has(*call->file);
  });
}

// `GradScaler(enabled=dtype == "float16")` where it is not known that a run takes fp16.
bool is_for_other_dtype(const SourceFacts& facts, const Scaler& scaler) {
  const Argument* enabled = scaler.call->argument("enabled");
  const Expr* asked = enabled == nullptr ? nullptr : resolved(enabled->value);
  return scaler.may_be_off && asked != nullptr && asked->kind == ExprKind::comparison &&
         asked->word() == "==" && asked->children().size() == 2 &&
         is_dtype(facts.value(asked->children()[1]), {"float16", "half", "fp16"}) &&
         !facts.value(asked).is_true();
}

// The first scaler that works with fp16 and that is not switched off for good.
const Call* enabled_scaler(const SourceFacts& facts, const Program& program) {
  const auto casts = autocasts_in(facts, program);
  const bool is_bf16 =
      !casts.empty() && std::all_of(casts.begin(), casts.end(), [](const auto& one) {
        return one.dtype == AutocastDtype::bf16;
      });
  if (is_bf16) return nullptr;
  for (const Scaler& scaler : scalers_in(facts, program)) {
    if (is_for_other_dtype(facts, scaler)) return nullptr;
    if (!scaler.is_off || scaler.may_be_off) return scaler.call;
  }
  if (!constructions_in(facts, program, TypeKind::scaler).empty()) return nullptr;
  // Made by a file that was not given.
  for (const Call* call : facts.method_calls("scale")) {
    if (is_scaler(call->receiver) && program.has(*call->file)) return call;
  }
  return nullptr;
}

// `more` are the other places where the program keeps the state of an optimizer.
Finding finding_for(const Call& state, const Call& scaler, const std::vector<const Call*>& more) {
  Finding finding = finding_at(
      state,
      "the checkpoint has the optimizer's state but not the scaler's: a resumed run starts again "
      "at a scale of 65536 and skips steps until it has fallen",
      {"Save \"scaler\": scaler.state_dict() with the optimizer, and load it on resume",
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::found(fmt::format("scaler at {}, its state_dict() is never used",
                                  place_text(scaler, *state.file))),
      Evidence::published("PyTorch recipe, Automatic Mixed Precision, Saving/Resuming")};
  for (const Call* other : more) {
    finding.evidence.push_back(
        Evidence::found(fmt::format("the same at {}", place_text(*other, *state.file))));
  }
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  const std::vector<const Call*>& states = facts.method_calls("state_dict");
  std::set<std::pair<const File*, const FunctionDef*>> seen;
  for (const Program* program : training_programs(facts)) {
    const Call* scaler = enabled_scaler(facts, *program);
    if (scaler == nullptr || saves_scaler(facts, *program)) continue;
    std::vector<const Call*> kept;
    for (const Call* state : states) {
      if (!is_optimizer_state(*state) || !is_kept(*state) || keeps_others(*state)) continue;
      if (!program->has(*state->file) || state->file->is_test) continue;
      // A function that keeps several states, or several copies, is one place to edit.
      if (seen.emplace(state->file, state->function).second) kept.push_back(state);
    }
    if (kept.empty()) continue;
    const Call* first = kept.front();
    kept.erase(kept.begin());
    findings.push_back(finding_for(*first, *scaler, kept));
  }
  return findings;
}

}  // namespace precision_scaler_not_in_checkpoint_rule

extern const Rule precision_scaler_not_in_checkpoint{
    .id = "precision/scaler-not-in-checkpoint",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Checkpoint has the optimizer but not the GradScaler",
    .doc = precision_scaler_not_in_checkpoint_rule::kDoc,
    .in_scripts = precision_scaler_not_in_checkpoint_rule::find};

}  // namespace rooftile
