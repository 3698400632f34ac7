// `engine.hooks["on_forward"] = on_forward`, and in the engine `self.hooks[name](state)`.
#include <algorithm>
#include <unordered_map>

#include "rooftile/readers/python/derive.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMaxHooks = 24;  // of one attribute

struct Hook {
  std::string_view key;
  const FunctionDef* function;
};

// The attribute of `x.hooks["key"]`; null for other expressions.
const Expr* table_of(const Expr* expr) {
  const bool is_item =
      expr != nullptr && expr->kind == ExprKind::subscript && expr->children().size() == 2;
  return is_item && expr->children()[0]->kind == ExprKind::attribute ? expr->children()[0]
                                                                     : nullptr;
}

// The keys that the call may mean: as written, or as the callers of its function pass it. Empty
// where one is not known.
std::vector<std::string_view> hook_keys(const Call& call, const Expr& key) {
  if (key.kind == ExprKind::text) return {key.word()};
  std::vector<std::string_view> keys;
  if (call.function == nullptr || key.kind != ExprKind::name) return keys;
  for (const Call* caller : call.function->callers) {
    const Argument* given = passed_argument(*caller, *call.function, key.word());
    if (given == nullptr || given->value->kind != ExprKind::text) return {};
    keys.push_back(given->value->word());
  }
  return keys;
}

using Tables = std::unordered_map<std::string_view, std::vector<Hook>>;  // by their attributes

Tables hook_tables(const SourceFacts& facts) {
  Tables tables;
  for (const auto& file : facts.files) {
    for (const Statement* statement : file->statements) {
      if (statement->kind != StatementKind::assignment || statement->value == nullptr) continue;
      const Expr* table = table_of(statement->target);
      const FunctionDef* function = statement->value->type->function;
      const Expr* key = table == nullptr ? nullptr : statement->target->children()[1];
      if (key == nullptr || key->kind != ExprKind::text || function == nullptr) continue;
      tables[table->word()].push_back({key->word(), function});
    }
  }
  return tables;
}

void link_hooks_of(const Tables& tables, const Call& call) {
  const Expr* callee = call.expr->children().empty() ? nullptr : call.expr->children()[0];
  const Expr* table = call.target == nullptr ? table_of(callee) : nullptr;
  const auto hooks = table == nullptr ? tables.end() : tables.find(table->word());
  if (hooks == tables.end() || hooks->second.size() > kMaxHooks) return;
  const auto keys = hook_keys(call, *callee->children()[1]);
  for (const Hook& hook : hooks->second) {
    const bool is_meant = keys.empty() || std::ranges::find(keys, hook.key) != keys.end();
    if (is_meant) link_function(const_cast<Call&>(call), *hook.function);
  }
}

}  // namespace

void link_hooks(SourceFacts& facts) {
  const Tables tables = hook_tables(facts);
  if (tables.empty()) return;
  for (const auto& file : facts.files) {
    for (const Call* call : file->calls) link_hooks_of(tables, *call);
  }
}

}  // namespace rooftile::source
