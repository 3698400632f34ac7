#include "rooftile/analysis/source/returned_loaders.h"

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile::source {
namespace {

// What the call gives for a parameter, its default included; null where neither is seen.
const Expr* passed_value(const Call& call, std::string_view name) {
  const auto& parameters = call.target->parameters;
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  if (found == parameters.end()) return nullptr;
  const Argument* given = passed_argument(call, *call.target, name);
  if (given != nullptr) return resolved(given->value);
  return call.unknown_arguments ? nullptr : found->default_value;
}

// Whether a condition on a parameter holds in the call; empty for other conditions.
std::optional<bool> holds(const Call& call, const Expr& condition) {
  if (condition.kind == ExprKind::logical && condition.word() == "not") {
    const auto inner = holds(call, *condition.children()[0]);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (condition.kind == ExprKind::name) {
    const Expr* given = passed_value(call, condition.word());
    const bool is_known = given != nullptr && given->kind == ExprKind::boolean;
    return is_known ? std::optional(given->word() == "True") : std::nullopt;
  }
  const bool compares = condition.kind == ExprKind::comparison &&
                        condition.children().size() == 2 &&
                        (condition.word() == "==" || condition.word() == "!=") &&
                        condition.children()[0]->kind == ExprKind::name;
  if (!compares) return std::nullopt;
  const Expr* given = passed_value(call, condition.children()[0]->word());
  const Expr& wanted = *condition.children()[1];
  const bool has_texts =
      given != nullptr && given->kind == ExprKind::text && wanted.kind == ExprKind::text;
  if (!has_texts) return std::nullopt;
  return (given->word() == wanted.word()) == (condition.word() == "==");
}

bool returns_at_end(const Statement& branch) {
  return !branch.body.empty() && branch.body.back()->kind == StatementKind::return_;
}

// Whether a branch around the statement, or one above that returns, takes it out.
bool is_ruled_out(const Call& call, const Statement& statement) {
  for (const Statement* each = &statement; each != nullptr; each = each->parent) {
    for (const Statement* above : before(*each)) {
      if (above->kind != StatementKind::if_ || above->value == nullptr) continue;
      if (returns_at_end(*above) && holds(call, *above->value) == true) return true;
    }
    const Statement* test = each->parent;
    if (test == nullptr || test->kind != StatementKind::if_ || test->value == nullptr) continue;
    const auto taken = holds(call, *test->value);
    const bool is_else = test->body.data() != each->block.data();
    if (taken && *taken == is_else) return true;
  }
  return false;
}

// Where the name stands in `a, b = call()`; empty for other bindings.
std::optional<std::size_t> place_in_target(const Expr& name) {
  const Expr* target = name.binding()->target;
  const bool is_unpacked = name.binding()->kind == StatementKind::assignment && target != nullptr &&
                           (target->kind == ExprKind::tuple || target->kind == ExprKind::list);
  if (!is_unpacked) return std::nullopt;
  for (std::size_t i = 0; i < target->children().size(); ++i) {
    if (target->children()[i]->kind == ExprKind::name &&
        target->children()[i]->word() == name.word()) {
      return i;
    }
  }
  return std::nullopt;
}

// What an own function returns as its only value, lists of several things left out.
std::vector<const Expr*> returned_wholes(const Call& call) {
  if (call.target == nullptr || call.name == "torch.nn.Module.__call__") return {};
  std::vector<const Expr*> values;
  for_statements(call.target->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || statement.value == nullptr) return;
    const ExprKind kind = resolved(statement.value)->kind;
    const bool is_several =
        kind == ExprKind::tuple || kind == ExprKind::list || kind == ExprKind::comprehension;
    if (!is_several && !is_ruled_out(call, statement)) values.push_back(statement.value);
  });
  return values;
}

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

const Call* returned_loader(const Call& call) {
  if (call.target == nullptr || call.name == "torch.nn.Module.__call__") return nullptr;
  const Call* found = nullptr;
  bool is_single = true;
  for_statements(call.target->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || statement.value == nullptr) return;
    const Type& type = *statement.value->type;
    if (!type.is(TypeKind::loader) || type.made_by == nullptr) return;
    if (is_ruled_out(call, statement)) return;
    is_single = is_single && (found == nullptr || found == type.made_by);
    found = type.made_by;
  });
  return is_single ? found : nullptr;
}

std::vector<const Expr*> passed_values(const Expr& name) {
  const bool is_open = name.kind == ExprKind::name && name.binding() == nullptr;
  const FunctionDef* function =
      is_open && name.statement != nullptr ? name.statement->function : nullptr;
  constexpr std::size_t kFewCallers = 8;
  if (function == nullptr || function->callers.size() > kFewCallers) return {};
  std::vector<const Expr*> values;
  for (const Call* caller : function->callers) {
    const Argument* given = passed_argument(*caller, *function, name.word());
    if (given != nullptr) values.push_back(given->value);
  }
  return values;
}

std::vector<const Expr*> returned_values(const Expr& name) {
  if (name.call() != nullptr) return returned_wholes(*name.call());
  const bool is_bound = name.kind == ExprKind::name && name.binding() != nullptr;
  const Expr* made = is_bound ? name.binding()->value : nullptr;
  if (made == nullptr || made->call() == nullptr || made->call()->target == nullptr) return {};
  const auto place = place_in_target(name);
  if (!place) return {};
  std::vector<const Expr*> values;
  std::vector<std::string_view> variables;
  const FunctionDef& function = *made->call()->target;
  for_statements(function.body, [&](const Statement& statement) {
    const bool is_tuple = statement.kind == StatementKind::return_ && statement.value != nullptr &&
                          statement.value->kind == ExprKind::tuple &&
                          *place < statement.value->children().size();
    if (!is_tuple) return;
    const Expr* value = statement.value->children()[*place];
    if (value->kind == ExprKind::name) variables.push_back(value->word());
    values.push_back(value);
  });
  for_statements(function.body, [&](const Statement& statement) {
    const Expr* target = statement.target;
    const bool sets = statement.kind == StatementKind::assignment && target != nullptr &&
                      statement.value != nullptr && target->kind == ExprKind::name;
    if (sets && std::ranges::find(variables, target->word()) != variables.end()) {
      values.push_back(statement.value);
    }
  });
  return values;
}

}  // namespace rooftile::source
