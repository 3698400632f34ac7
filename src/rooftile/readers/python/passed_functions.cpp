#include "rooftile/readers/python/passed_functions.h"

#include <algorithm>
#include <optional>

namespace rooftile::source {
namespace {

// What the call makes of a condition that is a parameter of the function it leads to: the argument,
// or the default. Empty where that is not written as True or False.
std::optional<bool> passed_truth(const Call& call, const Expr* condition) {
  const bool is_turned =
      condition != nullptr && condition->kind == ExprKind::logical && condition->word == "not";
  if (is_turned) {
    const auto truth = passed_truth(call, condition->children.front());
    return truth ? std::optional(!*truth) : std::nullopt;
  }
  if (condition == nullptr || condition->kind != ExprKind::name || call.unknown_arguments) {
    return std::nullopt;
  }
  const auto& parameters = call.target->parameters;
  const auto asked = std::ranges::find(parameters, condition->word, &Parameter::name);
  if (asked == parameters.end()) return std::nullopt;
  const Argument* given = passed_argument(call, *call.target, asked->name);
  const Expr* value = given == nullptr ? asked->default_value : given->value;
  const bool is_known = value != nullptr && value->kind == ExprKind::boolean;
  return is_known ? std::optional(value->word == "True") : std::nullopt;
}

bool is_in_loop(const Statement* statement) {
  for (; statement != nullptr; statement = statement->parent) {
    if (statement->kind == StatementKind::function) return false;
    if (statement->loop != nullptr) return true;
  }
  return false;
}

const FunctionDef* handed_over(const Call& call, const FunctionDef& function,
                               std::string_view parameter) {
  const Argument* given = passed_argument(call, function, parameter);
  return given == nullptr || given->unpacked ? nullptr : given->value->type->function;
}

}  // namespace

PassedFunctions::PassedFunctions(const SourceFacts& facts) {
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      const Expr* parameter = called_parameter(*call);
      if (parameter == nullptr || is_in_loop(call->statement)) continue;
      called_parameters_[call->function].push_back(parameter->word);
    }
  }
}

std::vector<const FunctionDef*> PassedFunctions::run_by(const Call& call) const {
  std::vector<const FunctionDef*> functions;
  const auto add = [&](const FunctionDef* function) {
    if (function != nullptr) functions.push_back(function);
  };
  if (const Expr* parameter = called_parameter(call)) {
    for (const Call* caller : call.function->callers) {
      add(handed_over(*caller, *call.function, parameter->word));
    }
    return functions;
  }
  const auto called = called_parameters_.find(call.target);
  if (called == called_parameters_.end()) return functions;
  for (const std::string_view parameter : called->second) {
    add(handed_over(call, *call.target, parameter));
  }
  return functions;
}

const Expr* called_parameter(const Call& call) {
  if (call.function == nullptr || call.receiver != nullptr || call.expr->children.empty()) {
    return nullptr;
  }
  const Expr& callee = *call.expr->children.front();
  const bool is_free = callee.kind == ExprKind::name && callee.binding == nullptr &&
                       !callee.type->is(TypeKind::module) && !callee.type->is(TypeKind::loss);
  const auto& parameters = call.function->parameters;
  const bool is_parameter =
      is_free && std::ranges::find(parameters, callee.word, &Parameter::name) != parameters.end();
  return is_parameter ? &callee : nullptr;
}

bool leaves_out(const Call& call, const Statement* statement) {
  for (const Statement* inner = statement; inner != nullptr; inner = inner->parent) {
    if (inner->kind == StatementKind::function) return false;
    for (const Statement* earlier : before(*inner)) {
      const bool returns = earlier->kind == StatementKind::if_ && !earlier->body.empty() &&
                           earlier->body.back()->kind == StatementKind::return_;
      if (returns && passed_truth(call, earlier->value) == true) return true;
    }
    const Statement* outer = inner->parent;
    if (outer == nullptr || outer->kind != StatementKind::if_) continue;
    const bool is_else = std::ranges::find(outer->otherwise, inner) != outer->otherwise.end();
    if (passed_truth(call, outer->value) == is_else) return true;
  }
  return false;
}

}  // namespace rooftile::source
