#include "rooftile/workload/source_walks.h"

namespace rooftile::source {

std::string_view last_name(const Expr* expr) {
  if (expr == nullptr) return {};
  const bool is_named = expr->kind == ExprKind::name || expr->kind == ExprKind::attribute;
  return is_named ? expr->word() : std::string_view();
}

const Expr* resolved(const Expr* expr) {
  for (int hops = 0; expr != nullptr && hops < 8; ++hops) {
    const Statement* binding = expr->kind == ExprKind::name ? expr->binding() : nullptr;
    const bool is_plain = binding != nullptr && binding->kind == StatementKind::assignment &&
                          binding->word == "=" && binding->value != nullptr &&
                          binding->target != nullptr && binding->target->kind == ExprKind::name;
    if (!is_plain) return expr;
    expr = binding->value;
  }
  return expr;
}

bool uses_name(const Expr* expr, Words names) {
  bool found = false;
  visit(expr, [&](const Expr& part) {
    const std::string_view name = last_name(&part);
    found = found || std::find(names.begin(), names.end(), name) != names.end();
    return !found;
  });
  return found;
}

bool uses_variable(const Expr* expr, std::string_view variable) {
  bool found = false;
  visit(expr, [&](const Expr& part) {
    found = found || (part.kind == ExprKind::name && part.word() == variable);
    return !found;
  });
  return found;
}

}  // namespace rooftile::source
