#include "rooftile/analysis/source/own_optimizers.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile::source {

bool is_optimizer_step(const FunctionDef* function) {
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  return def != nullptr && function->name == "step" &&
         std::ranges::any_of(def->bases, [](const Expr* base) {
           return base->full_name.starts_with("torch.optim.");
         });
}

bool is_training_optimizer_step(const SourceFacts& facts, const FunctionDef* function) {
  if (!is_optimizer_step(function)) return false;
  const ClassDef& def = *function->class_def;
  if (!trains_on_gpu(facts, *def.file)) return false;
  // `make = Adam`, and then `make(weights)`.
  const bool is_chosen = std::ranges::any_of(def.file->statements, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && each->value != nullptr &&
           each->value->full_name == def.full_name;
  });
  return is_chosen || !training_calls(facts, {def.full_name}).empty();
}

}  // namespace rooftile::source
