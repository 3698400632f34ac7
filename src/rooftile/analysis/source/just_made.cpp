#include "rooftile/analysis/source/just_made.h"

#include <algorithm>
#include <vector>

#include "rooftile/analysis/source/filled_tensors.h"
#include "rooftile/analysis/source/host_makers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {

bool is_number(const Expr& expr) {
  return expr.type->is(TypeKind::number) || expr.kind == ExprKind::none ||
         expr.type->is(TypeKind::dtype) ||
         (expr.kind == ExprKind::unary && !expr.type->is(TypeKind::tensor));
}

namespace {

bool joins_made(const Call& call, Steps steps);
bool is_just_made(const Expr* expr, Steps steps);

// `eps=1e-10`: a parameter that is a number, whatever is passed.
bool has_number_for_default(const Expr& name) {
  const FunctionDef* function = name.statement == nullptr ? nullptr : name.statement->function;
  if (name.kind != ExprKind::name || name.binding() != nullptr || function == nullptr) return false;
  const auto found = std::ranges::find(function->parameters, name.word(), &Parameter::name);
  return found != function->parameters.end() && found->default_value != nullptr &&
         found->default_value->type->is(TypeKind::number);
}

// Under `if device is not None:` or `if joins_ones:` where the call passes nothing for it.
bool is_left_out(const Statement& statement, const Call* call) {
  if (call == nullptr || call->target == nullptr || call->unknown_arguments) return false;
  for (const Statement* each = &statement; each->parent != nullptr; each = each->parent) {
    const Statement& test = *each->parent;
    const bool is_body = test.kind == StatementKind::if_ && test.value != nullptr &&
                         test.body.data() == each->block.data();
    if (!is_body) continue;
    const bool compares =
        test.value->kind == ExprKind::comparison && test.value->word() == "is not";
    const Expr* asked = compares ? test.value->children()[0] : test.value;
    const auto& parameters = call->target->parameters;
    const auto found = std::ranges::find(parameters, last_name(asked), &Parameter::name);
    if (found == parameters.end() || found->default_value == nullptr) continue;
    const Expr& usual = *found->default_value;
    const bool is_off = compares ? usual.kind == ExprKind::none : usual.word() == "False";
    if (is_off && passed_argument(*call, *call->target, found->name) == nullptr) {
      return true;
    }
  }
  return false;
}

// The function's statements that set the variable, or add to the list that it holds, before `use`.
std::vector<const Statement*> changes_of(const Expr& name, const Statement& use, Steps steps) {
  std::vector<const Statement*> changes;
  for_statements(use.function->body, [&](const Statement& statement) {
    const Call* call = statement.value == nullptr ? nullptr : statement.value->call();
    const bool adds = call != nullptr && is_one_of(call->method, {"append", "extend"}) &&
                      last_name(call->receiver) == name.word();
    const bool sets = statement.target != nullptr && uses_variable(statement.target, name.word());
    const bool is_before = statement.range.begin < use.range.begin;
    if ((adds || sets) && is_before && !is_left_out(statement, steps.call)) {
      changes.push_back(&statement);
    }
  });
  return changes;
}

// Of a variable: all that it is set to on the way.
bool is_name_just_made(const Expr& name, Steps steps) {
  const Statement* use = name.statement;
  const Statement* binding = name.binding();
  if (use == nullptr || use->function == nullptr)
    return is_just_made(resolved(&name), steps.next());
  if (binding != nullptr) {
    if (is_filled_in_loop(name.word(), *binding, *use)) return false;
    const bool is_set = binding->kind == StatementKind::assignment && binding->word == "=" &&
                        binding->value != nullptr && binding->target != nullptr;
    if (!is_set || binding->function != use->function) return false;
    const bool is_list = binding->value->kind == ExprKind::list;
    if (is_list && changes_of(name, *use, steps).size() > 1) return false;
    // `y, x = torch.meshgrid(…)`
    const bool is_part =
        binding->target->kind == ExprKind::tuple && binding->value->call() != nullptr;
    return (binding->target->kind == ExprKind::name || is_part) &&
           is_just_made(binding->value, steps.next());
  }
  const auto& parameters = use->function->parameters;
  if (std::ranges::find(parameters, name.word(), &Parameter::name) != parameters.end())
    return false;
  const auto changes = changes_of(name, *use, steps);
  return !changes.empty() && std::ranges::all_of(changes, [&](const Statement* one) {
    return one->kind == StatementKind::assignment && one->word == "=" && one->value != nullptr &&
           one->target->kind == ExprKind::name && is_just_made(one->value, steps.next());
  });
}

// Only a call that makes it, methods on that, and functions of each number of it.
bool is_call_just_made(const Call& call, Steps steps) {
  const bool is_function = !call.arguments.empty() && !call.name.starts_with("torch.Tensor.");
  const bool keeps =
      is_function && (is_last_word(call.name, "torch.",
                                   {"tril", "triu", "log", "exp", "sqrt", "sin", "cos", "pow",
                                    "abs", "log1p", "clamp", "tanh", "sigmoid"}) ||
                      is_last_word(call.name, "einops.", {"rearrange", "repeat"}));
  if (keeps) return is_just_made(call.arguments.front().value, steps.next());
  if (is_maker(call) || joins_made(call, steps)) return true;
  const bool moves =
      call.method == "cuda" || (call.method == "to" && !call.arguments.empty() &&
                                !call.arguments.front().value->type->is(TypeKind::dtype));
  return !moves && is_just_made(call.receiver, steps.next());
}

bool is_just_made(const Expr* expr, Steps steps) {
  if (expr == nullptr || steps.ended()) return false;
  const auto is_made = [&](const Expr* part) { return is_just_made(part, steps.next()); };
  switch (expr->kind) {
    case ExprKind::name:
      return is_name_just_made(*expr, steps);
    case ExprKind::tuple:
    case ExprKind::list:
      return std::ranges::all_of(expr->children(), is_made);
    case ExprKind::subscript:
    case ExprKind::unary:
      return is_made(expr->children()[0]);
    case ExprKind::comparison:
    case ExprKind::binary: {  // triu(ones(n, n)) == 0, eps - log(rand(n))
      const auto fits = [&](const Expr* part) {
        return is_number(*part) || has_number_for_default(*part) || is_made(part);
      };
      return expr->children().size() == 2 && std::ranges::any_of(expr->children(), is_made) &&
             std::ranges::all_of(expr->children(), fits);
    }
    default:
      return expr->call() != nullptr && is_call_just_made(*expr->call(), steps);
  }
}

// torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w)))
bool joins_made(const Call& call, Steps steps) {
  if (!is_last_word(call.name, "torch.", {"stack", "cat", "concat", "meshgrid"})) return false;
  bool has_part = false;
  for (const Argument& argument : call.arguments) {
    if (!argument.name.empty()) continue;
    const Expr& part = *argument.value;
    const bool is_list = part.kind == ExprKind::list || part.kind == ExprKind::tuple;
    const bool is_made =
        is_list
            ? std::ranges::all_of(part.children(),
                                  [&](const Expr* one) { return is_just_made(one, steps.next()); })
            : argument.value->type->is(TypeKind::number) || is_just_made(&part, steps.next());
    if (!is_made) return false;
    has_part = true;
  }
  return has_part;
}

}  // namespace

bool returns_made(const FunctionDef& function, Steps steps) {
  bool has_return = false;
  bool all = true;
  for_statements(function.body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || !all) return;
    has_return = true;
    all = is_just_made(statement.value, steps.next());
  });
  return has_return && all;
}

}  // namespace rooftile::source
