// What functions give back (inference.h): who calls them is read again when that becomes known.
#include <algorithm>

#include "rooftile/readers/python/inference.h"

namespace rooftile::source {

void Inference::visit_return(const Statement& statement) {
  if (statement.value == nullptr || function_ == nullptr) return;
  const Type* type = infer(statement.value);
  FunctionDef& def = writable(*function_);
  // A tuple of which nothing was known at the last visit says nothing against this one.
  const auto [last, is_first] = returned_types_.try_emplace(&statement, type);
  const bool knew_nothing = !is_first && last->second != type && def.returns == last->second &&
                            last->second->is(TypeKind::container) &&
                            last->second->items == nullptr && last->second->element == nullptr;
  if (knew_nothing) def.returns = &unknown_type();
  last->second = type;
  returns(def, type);
  note_returned_items(statement, *type);
}

void Inference::returns(const FunctionDef& function, const Type* type) {
  FunctionDef& def = writable(function);
  const Type* joined = join(def.returns, type);
  if (joined == def.returns) return;
  def.returns = joined;
  read_callers(def);
}

void Inference::read_callers(const FunctionDef& def) {
  for (const Call* caller : def.callers) {
    if (caller->function != nullptr) {
      enqueue(*caller->function);
    } else {
      stale_.insert(caller->file);
    }
  }
}

// `return index, values`: the type is that of the tuple as it is written, and stays the same when
// more is known of its items.
void Inference::note_returned_items(const Statement& statement, const Type& type) {
  if (type.items == nullptr) return;
  std::vector<const Type*> items;
  for (const Expr* item : type.items->children()) items.push_back(item->type);
  const auto [place, is_first] = returned_items_.try_emplace(&statement, items);
  if (is_first || place->second == items) return;
  place->second = std::move(items);
  read_callers(*function_);
}

namespace {

// The parameters that an expression picks one of: `value if exists(value) else usual`. False where
// it gives something else.
bool adds_picked(const Expr* value, const FunctionDef& def, std::vector<std::string_view>& picked) {
  if (value == nullptr) return false;
  if (value->kind == ExprKind::conditional) {
    return adds_picked(value->children()[0], def, picked) &&
           adds_picked(value->children()[2], def, picked);
  }
  // usual() of what may be a function that makes it
  const bool makes = value->kind == ExprKind::call && value->call()->arguments.empty() &&
                     value->call()->receiver == nullptr;
  const Expr* name = makes ? value->children()[0] : value;
  const bool is_parameter =
      name->kind == ExprKind::name &&
      std::ranges::find(def.parameters, name->word(), &Parameter::name) != def.parameters.end();
  if (is_parameter && !makes) picked.push_back(name->word());
  return is_parameter;
}

// Of `def default(value, usual)`, which gives back one of its parameters; none for other functions.
std::vector<std::string_view> picked_parameters(const FunctionDef& def) {
  std::vector<std::string_view> picked;
  if (def.class_def != nullptr || def.parameters.size() != 2) return picked;
  for (const Statement* statement : def.body) {
    if (statement->kind == StatementKind::if_ && statement->body.size() == 1) {
      statement = statement->body[0];
    }
    const bool picks =
        statement->kind == StatementKind::return_ && adds_picked(statement->value, def, picked);
    if (!picks) return {};
  }
  return picked.size() > 1 ? picked : std::vector<std::string_view>{};
}

}  // namespace

// What each caller gets of `default(value, usual)` is its own, not what the others pass.
const Type* Inference::chosen_argument_of(const Call& call, const FunctionDef& def) {
  const Type* chosen = nullptr;
  for (const std::string_view name : picked_parameters(def)) {
    const Argument* given = passed_argument(call, def, name);
    if (given == nullptr) return def.returns;
    const Type* type = given->value->type;
    if (type->is(TypeKind::function) || given->value->kind == ExprKind::lambda) continue;
    chosen = chosen == nullptr ? type : join(chosen, type);
  }
  return chosen == nullptr ? def.returns : chosen;
}

}  // namespace rooftile::source
