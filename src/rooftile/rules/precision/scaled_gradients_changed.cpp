#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "rooftile/analysis/source/loss_scaling.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace precision_scaled_gradients_changed_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Between `scaler.scale(loss).backward()` and `scaler.step(optimizer)`, without `scaler.unscale_(optimizer)`
before it: weights or random numbers added to gradients, as `p.grad += decay * p` or
`p.grad.add_(p, alpha=decay)`.

## Why it costs time
It does not: `scaler.step` divides the sum by the scale, 65536 at first. What was added without the scale is
as good as gone.

## How to fix
Call `scaler.unscale_(optimizer)` before the loop over the weights. Weight decay is an argument of most
optimizers (`weight_decay=`), where it needs no loop.

## How the saving is estimated
Nothing is saved: the rule is about a wrong result, which costs the whole run.

## When not to
- What is added is multiplied by `scaler.get_scale()`.
- Gradients added to gradients, as accumulation by hand: both carry the scale.
- Gradients multiplied by a number, as `p.grad /= n`.
- The scaler is off.

## Evidence
- PyTorch notes, "Automatic Mixed Precision examples", section "Working with unscaled gradients": gradients
  are to be unscaled before they are modified or inspected.
)md";

using namespace source;

// The object of `p.grad` and `p.grad.data`; null for other expressions.
const Expr* weight_of(const Expr* gradient) {
  if (gradient == nullptr || gradient->kind != ExprKind::attribute) return nullptr;
  if (gradient->word() == "data") return weight_of(gradient->children()[0]);
  return gradient->word() == "grad" ? gradient->children()[0] : nullptr;
}

// Whether a weight itself, not its gradient, or something drawn at random is in what is added.
bool adds_unscaled(const Expr* added, const Expr& weight) {
  bool is_unscaled = false, is_scaled = false;
  visit(added, [&](const Expr& part) {
    if (part.kind == ExprKind::attribute && contains(part.word(), "grad")) return false;
    const std::string_view name = part.call() != nullptr ? part.call()->method : last_name(&part);
    is_scaled = is_scaled || contains(name, "scale");
    is_unscaled = is_unscaled || name.starts_with("randn") || name.starts_with("normal") ||
                  (part.kind == ExprKind::name && part.word() == last_name(&weight));
    return true;
  });
  return is_unscaled && !is_scaled;
}

// `p.grad += …`, `p.grad = p.grad + …`, `p.grad.add_(…)` of something without the scale; the
// weight.
const Expr* changed_weight(const Statement& statement) {
  if (statement.kind == StatementKind::assignment) {
    const Expr* weight = weight_of(statement.target);
    const Expr* value = statement.value;
    const bool adds = value != nullptr && weight != nullptr &&
                      (is_one_of(statement.word, {"+=", "-="}) ||
                       (statement.word == "=" && value->kind == ExprKind::binary &&
                        is_one_of(value->word(), {"+", "-"}) && uses_name(value, {"grad"})));
    return adds && adds_unscaled(value, *weight) ? weight : nullptr;
  }
  const Call* call = statement.value == nullptr ? nullptr : statement.value->call();
  if (call == nullptr || !is_one_of(call->method, {"add_", "sub_"})) return nullptr;
  const Expr* weight = weight_of(call->receiver);
  if (weight == nullptr) return nullptr;
  const bool adds = std::ranges::any_of(call->arguments, [&](const Argument& argument) {
    return adds_unscaled(argument.value, *weight);
  });
  return adds ? weight : nullptr;
}

// In text order of one function: a scaled backward, then the statement, then the step, and no
// unscale_ before the statement.
const ScalingEvent* backward_around(const ScaledPass& pass, const Statement& statement) {
  const ScalingEvent* backward = nullptr;
  bool steps = false;
  for (const ScalingEvent& event : pass.events) {
    const Call& call = *event.at->call;
    if (call.file != statement.file || call.function != statement.function) continue;
    const bool is_before = call.open_paren < statement.range.begin;
    if (event.kind == ScalingKind::unscale && is_before) return nullptr;
    if (event.kind == ScalingKind::scaled_backward && is_before) backward = &event;
    steps = steps || (event.kind == ScalingKind::scaler_step && !is_before);
  }
  return steps ? backward : nullptr;
}

Finding finding_for(const Statement& statement, const Expr& weight, const ScalingEvent& backward) {
  const std::string scaler = code_text(*backward.at->call->file, backward.scaler);
  Finding finding = finding_at(
      statement,
      fmt::format("{}.grad carries the scale of {}, 65536 at first: what is added here is divided "
                  "by it in the step, and vanishes",
                  code_text(*statement.file, &weight), scaler),
      {fmt::format("Call {}.unscale_(optimizer) before it, or use the optimizer's weight_decay",
                   scaler),
       Exactness::changes_numerics});
  finding.evidence = {
      Evidence::found(fmt::format("scaled backward at {}, no unscale_ on the way here",
                                  place_text(*backward.at->call, *statement.file))),
      Evidence::published(
          "PyTorch notes, Automatic Mixed Precision examples, Working with unscaled gradients")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Statement*> seen;
  for (const ScaledPass& pass : scaled_passes(facts)) {
    const Loop* loop = pass.iteration->loop;
    const FunctionDef* function = pass.iteration->function;
    if (loop == nullptr && function == nullptr) continue;
    for_statements(loop != nullptr ? loop->statement->body : function->body,
                   [&](const Statement& statement) {
                     const Expr* weight = changed_weight(statement);
                     if (weight == nullptr || seen.contains(&statement)) return;
                     const ScalingEvent* backward = backward_around(pass, statement);
                     if (backward == nullptr || is_scaler_off(facts, *backward)) return;
                     seen.insert(&statement);
                     findings.push_back(finding_for(statement, *weight, *backward));
                   });
  }
  return findings;
}

}  // namespace precision_scaled_gradients_changed_rule

extern const Rule precision_scaled_gradients_changed{
    .id = "precision/scaled-gradients-changed",
    .level = Level::error,
    .cause = Cause::none,
    .summary = "Weight decay or noise is added to gradients that carry the loss scale",
    .doc = precision_scaled_gradients_changed_rule::kDoc,
    .in_scripts = precision_scaled_gradients_changed_rule::find};

}  // namespace rooftile
