#include "rooftile/analysis/source/filled_tensors.h"

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile::source {
namespace {

// In a `for` below the statement that makes the tensor: `for i, n in enumerate(lengths): mask[i,
// n:] = 0`.
bool is_in_loop_of_its_own(const Statement& fill, const Statement& made) {
  for (const Statement* outer = fill.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::for_) return !is_within(made, *outer);
  }
  return false;
}

bool is_filled(std::string_view variable, const Statement& made, const Statement& used,
               bool in_loops_only) {
  for (const Statement* statement : made.file->statements) {
    const bool is_between = statement->function == made.function &&
                            statement->range.begin > made.range.begin &&
                            statement->range.begin < used.range.begin;
    const Expr* target = is_between ? statement->target : nullptr;
    const bool is_item = target != nullptr && target->kind == ExprKind::subscript;
    while (is_item && target->kind == ExprKind::subscript) target = target->children()[0];
    const bool fills = is_item && statement->kind == StatementKind::assignment &&
                       target->kind == ExprKind::name && target->word() == variable &&
                       statement->value != nullptr;
    if (!fills) continue;
    const bool is_constant = statement->value->type->is(TypeKind::number) || in_loops_only;
    if (!is_constant || is_in_loop_of_its_own(*statement, made)) return true;
  }
  return false;
}

}  // namespace

bool is_filled_in_loop(std::string_view variable, const Statement& made, const Statement& used) {
  return is_filled(variable, made, used, true);
}

bool is_filled_between(std::string_view variable, const Statement& made, const Statement& used) {
  return is_filled(variable, made, used, false);
}

}  // namespace rooftile::source
