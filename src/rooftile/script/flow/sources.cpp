#include "rooftile/script/flow/sources.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "rooftile/script/flow/flow.h"

namespace rooftile::script {
namespace {

constexpr std::size_t kMaxSources = 4000;  // of one question

class SourceSearch {
 public:
  explicit SourceSearch(const source::SourceFacts& facts) : graphs_(graphs_of(facts)) {}

  bool find(const source::Expr& value,
            const std::function<SourceStep(const source::Expr&)>& judge) {
    push(&value);
    while (!open_.empty() && seen_.size() < kMaxSources) {
      const ValuePlace place = open_.back();
      open_.pop_back();
      if (!seen_.emplace(place.function, place.value).second) continue;
      const Instruction& made = place.function->values[place.value];
      const SourceStep step = made.expr == nullptr ? SourceStep::go_on : judge(*made.expr);
      if (step == SourceStep::found) return true;
      if (step == SourceStep::go_on) add_sources(*place.function, made);
    }
    return false;
  }

 private:
  void push(const source::Expr* expr) {
    const auto place = expr == nullptr ? std::nullopt : graphs_.place(*expr);
    if (place) open_.push_back(*place);
  }

  void add_sources(const Function& function, const Instruction& made) {
    switch (made.op) {
      case Op::parameter:
        return add_passed(function, made.word);
      case Op::free:
        return add_outer(function, made.word);
      case Op::enter:
      case Op::closure:
      case Op::definition:
        return;
      case Op::call:  // the arguments, and then what stands before the dot
        open_.push_back({&function, made.operands[0]});
        return add_operands(function, made, 1);
      default:
        return add_operands(function, made, 0);
    }
  }

  void add_operands(const Function& function, const Instruction& made, std::size_t first) {
    for (std::size_t i = made.operands.size(); i > first; --i) {
      open_.push_back({&function, made.operands[i - 1]});
    }
  }

  void add_passed(const Function& function, std::string_view word) {
    if (function.def == nullptr) return;
    if (function.kind == FunctionKind::lambda) return add_beside(function);
    const auto& callers = function.def->callers;
    for (auto caller = callers.rbegin(); caller != callers.rend(); ++caller) {
      const auto* given = source::passed_argument(**caller, *function.def, word);
      if (given != nullptr) push(given->value);
    }
  }

  // `copy_all(batch, lambda x: x.to(device))`: what the call gets that gets the lambda, or what the
  // lambda itself gets.
  void add_beside(const Function& lambda) {
    if (lambda.outer == nullptr) return;
    const Function& outer = *lambda.outer;
    const auto is_lambda = [&](ValueId value) {
      while (outer.values[value].op == Op::name) value = outer.values[value].operands[0];
      const source::Expr* made = outer.values[value].expr;
      return made != nullptr && made->function() == lambda.def;
    };
    for (const Instruction& each : outer.values) {
      const bool gets = each.op == Op::call && std::ranges::any_of(each.operands, is_lambda);
      if (gets) add_operands(outer, each, 1);
    }
  }

  void add_outer(const Function& function, std::string_view word) {
    for (const Function* outer = function.outer; outer != nullptr; outer = outer->outer) {
      if (outer->kind == FunctionKind::class_body) continue;
      bool is_found = false;
      for (const NamedValue& each : outer->definitions) {
        if (each.name != word) continue;
        open_.push_back({outer, each.value});
        is_found = true;
      }
      if (is_found) return;
    }
  }

  Graphs& graphs_;
  std::vector<ValuePlace> open_;
  std::set<std::pair<const Function*, ValueId>> seen_;
};

}  // namespace

bool find_source(const source::SourceFacts& facts, const source::Expr& value,
                 const std::function<SourceStep(const source::Expr&)>& judge) {
  return SourceSearch(facts).find(value, judge);
}

}  // namespace rooftile::script
