#include "rooftile/script/reach/ways_up.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "rooftile/script/reach/guards.h"
#include "rooftile/script/reach/path.h"

namespace rooftile::source {
namespace {

bool is_open(const Path& path, const std::function<bool(const Guard&)>& stops) {
  return std::ranges::none_of(
      path, [&](const PathStep& step) { return step.loop == nullptr && stops(step.guard); });
}

std::vector<Guard> guards_of_decorators(const FunctionDef& function) {
  std::vector<Guard> guards;
  for (const Expr* decorator : function.decorators) {
    guards.push_back(guard_of_manager(decorator, nullptr));
  }
  return guards;
}

// Whether a function without callers, or the top of a file, is met from the function on, where
// visit(caller) lets all of the callers pass that are on the way.
template <class MayEnter, class MayPass>
bool climbs_out(const FunctionDef* from, const MayEnter& may_enter, const MayPass& may_pass) {
  std::vector<const FunctionDef*> open{from};
  std::unordered_set<const FunctionDef*> seen{from};
  while (!open.empty()) {
    const FunctionDef* function = open.back();
    open.pop_back();
    if (function == nullptr) return true;
    if (!may_enter(*function)) continue;
    if (function->callers.empty()) return true;
    for (const Call* caller : function->callers) {
      if (!may_pass(*caller)) continue;
      if (seen.insert(caller->function).second) open.push_back(caller->function);
    }
  }
  return false;
}

bool leads_from(const SourceFacts& facts, const FunctionDef* function,
                const std::function<bool(const Guard&)>& stops) {
  return climbs_out(
      function,
      [&](const FunctionDef& one) {
        return std::ranges::none_of(guards_of_decorators(one), stops);
      },
      [&](const Call& caller) { return is_open(path_to(facts, *caller.statement), stops); });
}

// From the inside out to the step loop: whether it is met, or a guard that stops is.
std::optional<bool> meets_step(const Path& path, const std::function<bool(const Guard&)>& stops) {
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    if (step->loop != nullptr && step->loop->is_step()) {
      return step->loop->role == LoopRole::training_step;
    }
    if (step->loop == nullptr && stops(step->guard)) return false;
  }
  return std::nullopt;
}

bool is_step_function(const FunctionDef& function) {
  const bool is_hook = function.class_def != nullptr && function.class_def->is_lightning_module &&
                       function.name == "training_step";
  return is_hook || function.is_training_step;
}

// By the innermost `with` around that switches them; nothing where there is none.
std::optional<bool> switched_off_around(const Statement& statement) {
  for (const Statement* outer = statement.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return std::nullopt;
    if (outer->kind != StatementKind::with_) continue;
    for (auto item = outer->items.rbegin(); item != outer->items.rend(); ++item) {
      if (const auto off = turns_gradients_off(guard_of_manager(item->context, outer))) return off;
    }
  }
  return std::nullopt;
}

std::optional<bool> switched_off_by_decorator(const FunctionDef& function) {
  for (const Guard& guard : guards_of_decorators(function)) {
    if (const auto off = turns_gradients_off(guard)) return off;
  }
  return std::nullopt;
}

}  // namespace

bool leads_there(const SourceFacts& facts, const Statement& statement,
                 const std::function<bool(const Guard&)>& stops) {
  return is_open(path_to(facts, statement), stops) && leads_from(facts, statement.function, stops);
}

bool leads_there(const SourceFacts& facts, const Call& call,
                 const std::function<bool(const Guard&)>& stops) {
  return is_open(path_to(facts, call), stops) && leads_from(facts, call.function, stops);
}

bool leads_from_step(const SourceFacts& facts, const Statement& statement,
                     const std::function<bool(const Guard&)>& stops) {
  if (const auto met = meets_step(path_to(facts, statement), stops)) return *met;
  std::vector<const FunctionDef*> open{statement.function};
  std::unordered_set<const FunctionDef*> seen{statement.function, nullptr};
  while (!open.empty()) {
    const FunctionDef* function = open.back();
    open.pop_back();
    if (function == nullptr) return false;
    if (is_step_function(*function)) return true;
    for (const Call* caller : function->callers) {
      const auto met = meets_step(path_to(facts, *caller->statement), stops);
      if (met == true) return true;
      if (!met && seen.insert(caller->function).second) open.push_back(caller->function);
    }
  }
  return false;
}

bool is_condition_in_step(const Guard& guard) {
  switch (guard.kind) {
    case GuardKind::condition:
    case GuardKind::exception:
      return true;
    case GuardKind::once:
    case GuardKind::debug:
    case GuardKind::never:
      return !guard.negated;
    case GuardKind::every_n:
      return !guard.negated && !guard.interval.is(1);
    default:
      return false;
  }
}

std::vector<Guard> guards_on_ways(const SourceFacts& facts, const Statement& statement) {
  std::vector<Guard> all;
  const auto add = [&](const Path& path) {
    for (const PathStep& step : path) {
      if (step.loop == nullptr) all.push_back(step.guard);
    }
  };
  add(path_to(facts, statement));
  std::vector<const FunctionDef*> open{statement.function};
  std::unordered_set<const FunctionDef*> seen{statement.function};
  while (!open.empty()) {
    const FunctionDef* function = open.back();
    open.pop_back();
    if (function == nullptr) continue;
    std::ranges::move(guards_of_decorators(*function), std::back_inserter(all));
    for (const Call* caller : function->callers) {
      add(path_to(facts, *caller->statement));
      if (seen.insert(caller->function).second) open.push_back(caller->function);
    }
  }
  return all;
}

bool runs_without_gradients(const Statement& statement) {
  if (const auto off = switched_off_around(statement)) return *off;
  bool is_on = false;
  const bool climbs = climbs_out(
      statement.function,
      [&](const FunctionDef& one) {
        const auto off = switched_off_by_decorator(one);
        is_on = is_on || off == false;
        return !off;
      },
      [&](const Call& caller) {
        const auto off = switched_off_around(*caller.statement);
        is_on = is_on || off == false;
        return !off;
      });
  return !climbs && !is_on;
}

std::vector<const Call*> starts_of(const SourceFacts& facts, const FunctionDef& function) {
  std::vector<const Call*> starts;
  for (const std::string_view starter : {"spawn", "start_processes", "Process", "Thread"}) {
    std::ranges::copy_if(facts.method_calls(starter), std::back_inserter(starts),
                         [&](const Call* call) {
                           return std::ranges::any_of(call->arguments, [&](const Argument& given) {
                             return given.value->type->function == &function;
                           });
                         });
  }
  return starts;
}

}  // namespace rooftile::source
