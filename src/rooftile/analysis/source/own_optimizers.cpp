#include "rooftile/analysis/source/own_optimizers.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile::source {

bool is_optimizer_step(const FunctionDef* function) {
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  return def != nullptr && function->name == "step" &&
         std::ranges::any_of(def->bases, [](const Expr* base) {
           return base->full_name().starts_with("torch.optim.");
         });
}

bool runs_in_optimizer_step(const FunctionDef* function) {
  if (is_optimizer_step(function)) return true;
  const auto is_own_step = [&](const Call* call) {
    return is_optimizer_step(call->function) && call->function->class_def == function->class_def;
  };
  return function != nullptr && function->class_def != nullptr && !function->callers.empty() &&
         std::ranges::all_of(function->callers, is_own_step);
}

namespace {

// `if name == "lars": … elif name == "lamb": …` in a function that makes one of several optimizers,
// with a name that the files do not tell: which of them runs is not known.
bool is_one_of_many(const SourceFacts& facts, const Call& made) {
  constexpr std::ptrdiff_t kMany = 4;
  if (made.function == nullptr) return false;
  const auto& calls = made.function->calls;
  const auto count = std::ranges::count_if(
      calls, [](const Call* call) { return call->expr->type->is(TypeKind::optimizer); });
  if (count < kMany) return false;
  return !leads_there(facts, made, [&](const Guard& guard) {
    const Expr* expr = guard.expr;
    const bool compares = expr != nullptr && !guard.negated && guard.kind != GuardKind::main &&
                          expr->kind == ExprKind::comparison && expr->word() == "==";
    return compares && expr->children().back()->kind == ExprKind::text &&
           !facts.value(expr).known();
  });
}

}  // namespace

bool is_training_optimizer_step(const SourceFacts& facts, const FunctionDef* function) {
  if (!is_optimizer_step(function)) return false;
  const ClassDef& def = *function->class_def;
  if (!trains_on_gpu(facts, *def.file)) return false;
  // `make = Adam`, and then `make(weights)`.
  const bool is_chosen = std::ranges::any_of(def.file->statements, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && each->value != nullptr &&
           each->value->full_name() == def.full_name;
  });
  return is_chosen ||
         std::ranges::any_of(training_calls(facts, {def.full_name}),
                             [&](const Call* made) { return !is_one_of_many(facts, *made); });
}

}  // namespace rooftile::source
