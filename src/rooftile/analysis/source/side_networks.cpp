#include "rooftile/analysis/source/side_networks.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/script/reach/unused.h"

namespace rooftile::source {
namespace {

// The variables that an object of the class ends up in: up through the classes that keep one and
// the functions that return one.
class Holders {
 public:
  Holders(const SourceFacts& facts, const Program& program) : facts_(facts), program_(program) {}

  std::vector<const Expr*> variables;
  bool is_complete = true;

  void add(const ClassDef& def) {
    if (!seen_.insert(&def).second) return;
    const auto& made = facts_.calls(def.full_name);
    std::size_t count = 0;
    for (const Call* call : made) {
      if (!is_run(*call)) continue;
      ++count;
      add_call(*call);
    }
    is_complete = is_complete && count > 0;
  }

 private:
  bool is_run(const Call& call) const {
    return program_.has(*call.file) && runs_in(facts_, program_, *call.statement) &&
           !stands_in_unused(facts_, *call.statement);
  }

  void add(const FunctionDef& function) {
    if (!seen_.insert(&function).second) return;
    if (function.callers.empty()) is_complete = false;
    for (const Call* caller : function.callers) {
      if (is_run(*caller)) add_call(*caller);
    }
  }

  void add_call(const Call& call) {
    const Statement& statement = *call.statement;
    const FunctionDef* function = call.function;
    const ClassDef* keeper = function == nullptr ? nullptr : function->class_def;
    const Expr* target = statement.target;
    const bool is_variable = target != nullptr && target->kind == ExprKind::name;
    if (keeper != nullptr) return add(*keeper);
    if (statement.kind == StatementKind::return_ && function != nullptr) return add(*function);
    if (!is_variable) {
      is_complete = false;
    } else if (function != nullptr && is_returned(target->word(), *function)) {
      add(*function);
    } else {
      variables.push_back(target);
    }
  }

  static bool is_returned(std::string_view variable, const FunctionDef& function) {
    return any_statement(function.body, [&](const Statement& each) {
      return each.kind == StatementKind::return_ && uses_variable(each.value, variable);
    });
  }

  const SourceFacts& facts_;
  const Program& program_;
  std::unordered_set<const void*> seen_;
};

// The modules whose parameters() an optimizer gets, whichever branch sets them; empty where one is
// no plain variable.
std::vector<const Expr*> optimized_variables(const SourceFacts& facts, const Program& program) {
  std::vector<const Expr*> variables;
  for (const Call* optimizer : constructions_in(facts, program, TypeKind::optimizer)) {
    const Argument* parameters = optimizer->argument("params", 0);
    if (parameters == nullptr) return {};
    for (const Expr* origin : script::origins(facts, *parameters->value)) {
      std::size_t found = 0;
      visit(origin, [&](const Expr& part) {
        const Call* call = part.call();
        const bool lists = call != nullptr && call->receiver != nullptr &&
                           is_one_of(call->method, {"parameters", "named_parameters"});
        if (lists && call->receiver->kind == ExprKind::name) {
          variables.push_back(call->receiver);
          ++found;
        }
        return true;
      });
      if (found == 0) return {};
    }
  }
  return variables;
}

}  // namespace

bool is_beside_training(const SourceFacts& facts, const Program& program, const ClassDef& def) {
  Holders holders(facts, program);
  holders.add(def);
  const auto optimized = optimized_variables(facts, program);
  if (!holders.is_complete || holders.variables.empty() || optimized.empty()) return false;
  return std::ranges::all_of(holders.variables, [&](const Expr* held) {
    return std::ranges::all_of(optimized, [&](const Expr* network) {
      const bool is_alike = network->word() == held->word();
      // Nothing that the network is set to has the other inside.
      const bool is_apart =
          std::ranges::none_of(network->statement->file->statements, [&](const Statement* each) {
            return each->kind == StatementKind::assignment &&
                   last_name(each->target) == network->word() && each->value != nullptr &&
                   uses_variable(each->value, held->word());
          });
      return !is_alike && is_apart && network->statement->function == held->statement->function &&
             network->statement->file == held->statement->file;
    });
  });
}

}  // namespace rooftile::source
