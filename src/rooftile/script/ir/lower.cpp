#include "rooftile/script/ir/lower.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rooftile/script/ir/lower_function.h"

namespace rooftile::script {

Unit::Unit(const source::File& file) : file_(file), bodies_{{.name = file.module}} {}

const Function* Unit::lowered(std::uint32_t index) {
  if (functions_.size() < bodies_.size()) functions_.resize(bodies_.size());
  if (functions_[index] != nullptr) return functions_[index].get();
  const PendingBody body = bodies_[index];  // the list grows
  const Function* outer = index == 0 ? nullptr : functions_[body.outer].get();
  const std::size_t known = bodies_.size();
  auto function = LowerFunction(file_, body, outer, index, bodies_).run();
  functions_.resize(bodies_.size());
  for (std::size_t i = known; i < bodies_.size(); ++i) {
    const PendingBody& inner = bodies_[i];
    const void* key = inner.class_def;
    if (inner.def != nullptr) key = inner.def;
    places_.emplace(key, static_cast<std::uint32_t>(i));
  }
  functions_[index] = std::move(function);
  return functions_[index].get();
}

const Function* Unit::body(const source::FunctionDef& def) {
  if (def.file != &file_) return nullptr;
  if (!places_.contains(&def)) body_around(def.statement);
  const auto place = places_.find(&def);
  return place == places_.end() ? nullptr : lowered(place->second);
}

const Function* Unit::body(const source::ClassDef& def) {
  if (def.file != &file_) return nullptr;
  if (!places_.contains(&def)) body_around(def.statement);
  const auto place = places_.find(&def);
  return place == places_.end() ? nullptr : lowered(place->second);
}

// What a statement stands in.
const Function* Unit::body_around(const source::Statement* statement) {
  const source::Statement* outer = statement->parent;
  while (outer != nullptr && outer->function_def == nullptr && outer->class_def == nullptr) {
    outer = outer->parent;
  }
  if (outer == nullptr) return &module();
  return outer->function_def != nullptr ? body(*outer->function_def) : body(*outer->class_def);
}

// Decorators and defaults run where the definition stands; the body of a lambda is one of its own.
const Function* Unit::body_of(const source::Expr& expr) {
  const Function* around = body_around(expr.statement);
  const source::FunctionDef* lambda = nullptr;
  for (const source::Expr* outer = expr.parent; outer != nullptr && lambda == nullptr;
       outer = outer->parent) {
    lambda = outer->function();
    if (lambda != nullptr && !places_.contains(lambda)) body_of(*outer);
  }
  return lambda == nullptr ? around : body(*lambda);
}

std::optional<ValuePlace> Unit::place(const source::Expr& expr) {
  const Function* function = body_of(expr);
  if (function == nullptr) return std::nullopt;
  const auto behind = std::ranges::upper_bound(function->places, &expr, {}, &ExprValue::expr);
  const bool is_found = behind != function->places.begin() && std::prev(behind)->expr == &expr;
  return is_found ? std::optional(ValuePlace{function, std::prev(behind)->value}) : std::nullopt;
}

std::vector<const Function*> Unit::all() {
  std::vector<const Function*> functions;
  for (std::uint32_t i = 0; i < bodies_.size(); ++i) functions.push_back(lowered(i));
  return functions;
}

}  // namespace rooftile::script
