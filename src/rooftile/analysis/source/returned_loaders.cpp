#include "rooftile/analysis/source/returned_loaders.h"

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile::source {
namespace {

// Where the variable stands among what its function returns; empty where it is used otherwise.
std::optional<std::size_t> place_in_return(const Statement& made) {
  std::optional<std::size_t> place;
  bool is_used = false;
  for_statements(made.function->body, [&](const Statement& statement) {
    const Expr* value = statement.kind == StatementKind::return_ ? statement.value : nullptr;
    const bool is_row = value != nullptr && value->kind == ExprKind::tuple;
    for (std::size_t i = 0; is_row && i < value->children().size(); ++i) {
      const Expr& item = *value->children()[i];
      if (item.kind != ExprKind::name || item.word() != made.target->word()) {
        is_used = is_used || uses_variable(&item, made.target->word());
        continue;
      }
      is_used = is_used || place.has_value();
      place = i;
    }
    is_used = is_used || (!is_row && &statement != &made &&
                          (uses_variable(statement.value, made.target->word()) ||
                           uses_variable(statement.target, made.target->word())));
  });
  return is_used ? std::nullopt : place;
}

}  // namespace

bool is_dropped_by_callers(const Call& loader) {
  const Statement* made = loader.statement;
  const bool is_plain = made != nullptr && made->kind == StatementKind::assignment &&
                        made->value == loader.expr && made->target != nullptr &&
                        made->target->kind == ExprKind::name && made->function != nullptr &&
                        !made->function->callers.empty();
  const auto place = is_plain ? place_in_return(*made) : std::nullopt;
  return place && std::ranges::all_of(made->function->callers, [&](const Call* caller) {
           const Statement* use = caller->statement;
           const Expr* target =
               use == nullptr || use->value != caller->expr ? nullptr : use->target;
           const bool is_row = target != nullptr && target->kind == ExprKind::tuple &&
                               *place < target->children().size();
           return is_row && target->children()[*place]->kind == ExprKind::name &&
                  target->children()[*place]->word().starts_with('_');
         });
}

}  // namespace rooftile::source
