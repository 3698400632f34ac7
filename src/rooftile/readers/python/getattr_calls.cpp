// `getattr(self, "_" + mode)(x)`: the method of that name, or those with the written beginning.
#include <algorithm>
#include <string>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMaxPicked = 16;    // to choose from
constexpr std::size_t kMinBeginning = 4;  // letters of `forward_`, that tell a group of methods

// What is known of the name: its text, or how it begins.
struct Picked {
  std::string text;
  bool is_whole = false;
};

// `kwargs.get("mode", "forward")`: the text that it falls back to; empty for other values.
std::string_view fallback_of(const Expr& expr) {
  const bool is_bound = expr.kind == ExprKind::name && expr.binding() != nullptr &&
                        expr.binding()->kind == StatementKind::assignment &&
                        expr.binding()->value != nullptr;
  const Call* call = is_bound ? expr.binding()->value->call() : expr.call();
  const bool gets = call != nullptr && is_one_of(call->method, {"get", "pop"}) &&
                    call->arguments.size() == 2 && call->arguments[1].value->kind == ExprKind::text;
  return gets ? call->arguments[1].value->word() : std::string_view();
}

Picked picked_by(const SourceFacts& facts, const Expr& name) {
  const auto known = [&](const Expr& part) -> std::string {
    const Value value = facts.value(&part);
    return std::string(value.kind == ValueKind::text ? value.text : fallback_of(part));
  };
  if (const std::string text = known(name); !text.empty()) return {text, true};
  const bool joins = name.kind == ExprKind::binary && name.word() == "+" &&
                     name.children().size() == 2 && name.children()[0]->kind == ExprKind::text;
  if (!joins) return {};
  const std::string rest = known(*name.children()[1]);
  return {std::string(name.children()[0]->word()) + rest, !rest.empty()};
}

// Of the class and of those that derive from it.
std::vector<const FunctionDef*> methods_of(const SourceFacts& facts, const ClassDef& owner,
                                           const Picked& picked) {
  std::vector<const FunctionDef*> methods;
  for (const auto& file : facts.files) {
    for (const ClassDef* def : file->classes) {
      for (const FunctionDef* method : def->methods) {
        const bool is_it =
            picked.is_whole ? method->name == picked.text : method->name.starts_with(picked.text);
        const bool is_of_it = is_it && (def == &owner || derives(facts, *def, owner));
        if (is_of_it) methods.push_back(method);
      }
    }
  }
  return methods;
}

void link_picked(const SourceFacts& facts, Call& call) {
  const Expr* callee = call.expr->children().empty() ? nullptr : call.expr->children()[0];
  const Call* got = callee == nullptr ? nullptr : callee->call();
  const bool is_picked = call.target == nullptr && got != nullptr && got->method == "getattr" &&
                         got->receiver == nullptr && got->arguments.size() == 2 &&
                         got->arguments[0].value->word() == "self";
  const ClassDef* owner =
      is_picked && call.function != nullptr ? call.function->class_def : nullptr;
  if (owner == nullptr) return;
  const Picked picked = picked_by(facts, *got->arguments[1].value);
  if (!picked.is_whole && picked.text.size() < kMinBeginning) return;
  const auto methods = methods_of(facts, *owner, picked);
  if (methods.size() > kMaxPicked) return;
  for (const FunctionDef* method : methods) {
    if (method != call.function) link_function(call, *method);
  }
}

}  // namespace

void link_picked_methods(SourceFacts& facts) {
  for (const auto& file : facts.files) {
    if (!contains(file->text, "getattr(self")) continue;
    for (const Call* call : file->calls) link_picked(facts, const_cast<Call&>(*call));
  }
}

}  // namespace rooftile::source
