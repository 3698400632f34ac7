#include "rooftile/analysis/source/asked_truth.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

bool knows_without_gpu(const Call& call) {
  if (call.method.starts_with("is_")) return true;
  return call.receiver != nullptr && call.arguments.empty() &&
         (call.method.starts_with("has_") || call.method.ends_with("_enabled"));
}

bool is_met_once(const Statement& statement, const Expr& operand) {
  if (statement.kind != StatementKind::if_ || operand.kind != ExprKind::comparison) return false;
  return any_statement(statement.body, [&](const Statement& inner) {
    const bool sets =
        inner.kind == StatementKind::assignment && inner.target->kind == ExprKind::attribute;
    if (!sets) return false;
    const std::string_view target = inner.file->slice(inner.target->range);
    return std::ranges::any_of(operand.children(), [&](const Expr* side) {
      return side->kind == ExprKind::attribute && statement.file->slice(side->range) == target;
    });
  });
}

bool may_be_none(const Expr& expr) {
  if (expr.kind != ExprKind::name || expr.binding() != nullptr) return false;
  const FunctionDef* function = expr.statement->function;
  if (function == nullptr) return false;
  bool found = false;
  for_statements(function->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::assignment) return;
    const Expr* value = statement.value;
    if (value == nullptr || statement.word != "=") return;
    const Expr& target = *statement.target;
    if (target.kind == ExprKind::name) {
      found = found || (target.word() == expr.word() && value->kind == ExprKind::none);
    } else if (target.kind == ExprKind::tuple && value->kind == ExprKind::tuple) {
      const std::size_t count = std::min(target.children().size(), value->children().size());
      for (std::size_t i = 0; i < count; ++i) {
        found = found || (target.children()[i]->word() == expr.word() &&
                          value->children()[i]->kind == ExprKind::none);
      }
    }
  });
  return found;
}

bool compares_with_other(const Expr& expr) {
  return expr.kind == ExprKind::comparison &&
         std::ranges::any_of(expr.children(), [](const Expr* side) {
           return side->kind == ExprKind::text || side->kind == ExprKind::none;
         });
}

bool is_called_inside(const Statement& statement, const Expr& expr) {
  const bool is_plain = expr.kind == ExprKind::name || expr.kind == ExprKind::attribute;
  if (!is_plain || statement.kind != StatementKind::if_) return false;
  const std::string_view text = statement.file->slice(expr.range);
  return std::ranges::any_of(calls_inside(statement), [&](const Call* call) {
    return statement.file->slice(call->expr->children().front()->range) == text;
  });
}

bool is_text_item(const Expr& expr) {
  constexpr int kMaxHops = 4;
  const Expr* item = resolved(&expr);
  for (int hops = 0; hops < kMaxHops && item->kind == ExprKind::subscript; ++hops) {
    const Expr& key = *item->children().back();
    if (key.kind == ExprKind::text) {
      const std::string name = lower(key.word());
      return is_one_of(name, {"text", "texts", "caption", "captions"}) ||
             ends_with_any(name, {"name", "names", "path", "paths"});
    }
    item = resolved(item->children().front());
  }
  return false;
}

}  // namespace rooftile::source
