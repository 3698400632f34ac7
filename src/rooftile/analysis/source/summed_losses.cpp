#include "rooftile/analysis/source/summed_losses.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/value_places.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

// `total = 0.0` that `total += loss` makes a tensor: no number has item().
bool becomes_tensor(const Expr& name) {
  const bool is_member =
      name.kind == ExprKind::attribute && last_name(name.children()[0]) == "self";
  if ((name.kind != ExprKind::name && !is_member) || !name.type->is(TypeKind::number)) return false;
  const FunctionDef* function = name.statement->function;
  const auto is_beside = [&](const Statement& each) {
    if (!is_member) return each.function == function;
    return function != nullptr && each.function != nullptr &&
           each.function->class_def == function->class_def;
  };
  const auto& statements = name.statement->file->statements;
  return std::ranges::any_of(statements, [&](const Statement* each) {
    const bool adds = each->kind == StatementKind::assignment && each->word == "+=" &&
                      is_beside(*each) && each->target->kind == name.kind &&
                      each->target->word() == name.word();
    if (!adds || each->value == nullptr || comes_from_numpy(each->value)) return false;
    return each->value->type->is(TypeKind::unknown) || each->value->type->is(TypeKind::tensor);
  });
}

// `loss = losses["ner"]; loss.backward()`, whatever the dictionary was made with.
bool runs_backward(const Expr& name) {
  if (name.kind != ExprKind::name) return false;
  const FunctionDef* function = name.statement->function;
  const auto& calls = function != nullptr ? function->calls : name.statement->file->calls;
  return std::ranges::any_of(calls, [&](const Call* call) {
    return call->method == "backward" && call->function == function && call->receiver != nullptr &&
           call->receiver->kind == ExprKind::name && call->receiver->word() == name.word();
  });
}

}  // namespace rooftile::source
