// Walks over the functions of a project along their calls, each function once.
#pragma once

#include <algorithm>
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
}  // namespace rooftile::source
