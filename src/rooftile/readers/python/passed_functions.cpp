#include "rooftile/readers/python/passed_functions.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace rooftile::source {
namespace {

// The parameter that is called; null for other calls.
const Expr* called_parameter(const Call& call) {
  if (call.function == nullptr || call.receiver != nullptr) return nullptr;
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
  return given == nullptr ? nullptr : given->value->type->function;
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
      const FunctionDef* function = given == nullptr ? nullptr : given->value->type->function;
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

}  // namespace rooftile::source
