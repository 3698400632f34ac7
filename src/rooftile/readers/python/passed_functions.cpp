#include "rooftile/readers/python/passed_functions.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace rooftile::source {
namespace {

// What the call makes of a condition that is a parameter of the function it leads to: the argument,
// or the default. Empty where that is not written as True or False.
std::optional<bool> passed_truth(const Call& call, const Expr* condition) {
  const bool is_turned =
      condition != nullptr && condition->kind == ExprKind::logical && condition->word() == "not";
  if (is_turned) {
    const auto truth = passed_truth(call, condition->children().front());
    return truth ? std::optional(!*truth) : std::nullopt;
  }
  if (condition == nullptr || condition->kind != ExprKind::name || call.unknown_arguments) {
    return std::nullopt;
  }
  const auto& parameters = call.target->parameters;
  const auto asked = std::ranges::find(parameters, condition->word(), &Parameter::name);
  if (asked == parameters.end()) return std::nullopt;
  const Argument* given = passed_argument(call, *call.target, asked->name);
  const Expr* value = given == nullptr ? asked->default_value : given->value;
  const bool is_known = value != nullptr && value->kind == ExprKind::boolean;
  return is_known ? std::optional(value->word() == "True") : std::nullopt;
}

// The parameter that is called; null for other calls.
const Expr* called_parameter(const Call& call) {
  if (call.function == nullptr || call.receiver != nullptr || call.expr->children().empty()) {
    return nullptr;
  }
  const Expr& callee = *call.expr->children().front();
  const bool is_free = callee.kind == ExprKind::name && callee.binding() == nullptr &&
                       !callee.type->is(TypeKind::module) && !callee.type->is(TypeKind::loss);
  const auto& parameters = call.function->parameters;
  const bool is_parameter =
      is_free && std::ranges::find(parameters, callee.word(), &Parameter::name) != parameters.end();
  return is_parameter ? &callee : nullptr;
}

}  // namespace

const FunctionDef* closure_of(const Call& call) {
  const bool steps =
      call.method == "step" && call.target == nullptr && call.receiver != nullptr &&
      (call.receiver->type->is(TypeKind::optimizer) || call.receiver->type->is(TypeKind::unknown));
  const Argument* given = steps ? call.argument("closure", 0) : nullptr;
  const bool is_function =
      given != nullptr && !given->unpacked && given->value->type->is(TypeKind::function);
  return is_function ? given->value->type->function : nullptr;
}

PassedFunctions::PassedFunctions(const SourceFacts& facts) {
  std::vector<std::pair<const Call*, std::string_view>> called;
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) {
      if (const FunctionDef* closure = closure_of(*call)) run_by_[call].push_back(closure);
      const Expr* parameter = called_parameter(*call);
      if (parameter == nullptr) continue;
      called.emplace_back(call, parameter->word());
      calls_of_parameters_.insert(call);
    }
  }
  for (const auto& [call, parameter] : called) {
    const bool repeats = loop_around(call->statement) != nullptr;
    for (const Call* caller : call->function->callers) {
      const Argument* given = passed_argument(*caller, *call->function, parameter);
      const FunctionDef* function =
          given == nullptr || given->unpacked ? nullptr : given->value->type->function;
      if (function == nullptr) continue;
      run_by_[call].push_back(function);
      const bool runs_there =
          !repeats && caller->target == call->function && !calls_parameter(*caller);
      if (runs_there) run_by_[caller].push_back(function);
    }
  }
}

std::span<const FunctionDef* const> PassedFunctions::run_by(const Call& call) const {
  const auto found = run_by_.find(&call);
  return found == run_by_.end() ? std::span<const FunctionDef* const>() : found->second;
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
