// Walks over the functions of a project along their calls, each function once, and over statements
// and expressions.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// Calls visit(function) for the function and for those that add_next(function, add) gives, up to
// `levels` steps away, the nearest first and each once. Where visit returns false, it goes no
// further from there.
template <class Visit, class AddNext>
void for_functions_around(const FunctionDef& function, int levels, const Visit& visit,
                          const AddNext& add_next) {
  std::vector<const FunctionDef*> found{&function};
  std::unordered_set<const FunctionDef*> seen{&function};
  for (std::size_t next = 0; levels >= 0; --levels) {
    for (const std::size_t end = found.size(); next < end; ++next) {
      const FunctionDef& one = *found[next];
      if (!visit(one) || levels == 0) continue;
      add_next(one, [&](const FunctionDef* other) {
        if (other != nullptr && seen.insert(other).second) found.push_back(other);
      });
    }
  }
}
// With those of the project that it calls.
template <class Visit>
void for_functions_below(const FunctionDef& function, int levels, const Visit& visit) {
  for_functions_around(function, levels, visit, [](const FunctionDef& one, const auto& add) {
    for (const Call* call : one.calls) add(call->target);
  });
}
// Whether test(call) holds for a call in one of these functions.
template <class Test>
bool any_call_below(const FunctionDef& function, int levels, const Test& test) {
  bool found = false;
  for_functions_below(function, levels, [&](const FunctionDef& one) {
    found = found || std::any_of(one.calls.begin(), one.calls.end(),
                                 [&](const Call* call) { return test(*call); });
    return !found;
  });
  return found;
}
// Whether test(call) holds for a call that leads to the function, itself or through others.
template <class Test>
bool any_call_above(const FunctionDef& function, int levels, const Test& test) {
  bool found = false;
  const auto visit = [&](const FunctionDef& one) {
    found = found || std::any_of(one.callers.begin(), one.callers.end(),
                                 [&](const Call* call) { return test(*call); });
    return !found;
  };
  for_functions_around(function, levels, visit, [](const FunctionDef& one, const auto& add) {
    for (const Call* call : one.callers) add(call->function);
  });
  return found;
}

// Calls of the project that a question follows, one inside of the other.
constexpr int kMaxCallDepth = 3;

using Words = std::initializer_list<std::string_view>;

// The last part of a variable or attribute: "scaler" of self.scaler; empty for other expressions.
std::string_view last_name(const Expr* expr);
// The expression under names bound once and parentheses: what `x` was set to; itself otherwise.
const Expr* resolved(const Expr* expr);

// Calls action(expr) for the expression and all below it, each before its children; stops below
// where action returns false.
template <class Action>
void visit(const Expr* expr, const Action& action) {
  if (expr == nullptr || !action(*expr)) return;
  for (const Expr* child : expr->children()) visit(child, action);
}
// Whether the expression is, or has inside, one that meets the test.
template <class Test>
bool any_inside(const Expr* expr, const Test& test) {
  bool found = false;
  visit(expr, [&](const Expr& part) {
    found = found || test(part);
    return !found;
  });
  return found;
}
// Whether the expression has a name or attribute inside whose last part is one of the words.
bool uses_name(const Expr* expr, Words names);
// Whether a variable spelled like `variable` is inside.
bool uses_variable(const Expr* expr, std::string_view variable);

// Calls action(expr) for the expressions that stand in the statement itself, not in its blocks.
template <class Action>
void for_own_expressions(const Statement& statement, const Action& action) {
  if (statement.value != nullptr) action(statement.value);
  if (statement.target != nullptr) action(statement.target);
  for (const WithItem& item : statement.items) {
    if (item.context != nullptr) action(item.context);
  }
}
// Calls action(statement) for all statements of the block and below, in text order, nested
// functions and classes left out.
template <class Action>
void for_statements(std::span<const Statement* const> block, const Action& action) {
  for (const Statement* statement : block) {
    action(*statement);
    if (statement->function_def != nullptr || statement->class_def != nullptr) continue;
    for_statements(statement->body, action);
    for_statements(statement->otherwise, action);
  }
}
// Whether one of them meets the test.
template <class Test>
bool any_statement(std::span<const Statement* const> block, const Test& test) {
  return std::ranges::any_of(block, [&](const Statement* statement) {
    if (test(*statement)) return true;
    const bool is_apart = statement->function_def != nullptr || statement->class_def != nullptr;
    return !is_apart &&
           (any_statement(statement->body, test) || any_statement(statement->otherwise, test));
  });
}
// Whether a part of an expression that stands in the statement itself meets the test.
template <class Test>
bool any_part(const Statement& statement, const Test& test) {
  bool found = false;
  for_own_expressions(statement,
                      [&](const Expr* expr) { found = found || any_inside(expr, test); });
  return found;
}

}  // namespace rooftile::source
