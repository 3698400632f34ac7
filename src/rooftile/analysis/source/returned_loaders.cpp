#include "rooftile/analysis/source/returned_loaders.h"

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/program_queries.h"

namespace rooftile::source {
namespace {

// What the call gives for a parameter, its default included.
Value passed_value(const SourceFacts& facts, const Call& call, std::string_view name) {
  const auto& parameters = call.target->parameters;
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  if (found == parameters.end()) return {};
  const bool has_self = call.target->class_def != nullptr && call.receiver != nullptr;
  const int place = static_cast<int>(found - parameters.begin()) - (has_self ? 1 : 0);
  const Value given = facts.argument(call, name, place);
  const bool is_left = given.absent() && found->default_value != nullptr;
  return is_left ? facts.value(found->default_value) : given;
}

// Whether a condition on a parameter holds in the call; empty for other conditions.
std::optional<bool> holds(const SourceFacts& facts, const Call& call, const Expr& condition) {
  if (condition.kind == ExprKind::logical && condition.word == "not") {
    const auto inner = holds(facts, call, *condition.children[0]);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (condition.kind == ExprKind::name) {
    const Value given = passed_value(facts, call, condition.word);
    if (given.is_true()) return true;
    return given.is_false() ? std::optional(false) : std::nullopt;
  }
  const bool compares = condition.kind == ExprKind::comparison && condition.children.size() == 2 &&
                        (condition.word == "==" || condition.word == "!=") &&
                        condition.children[0]->kind == ExprKind::name;
  if (!compares) return std::nullopt;
  const Value given = passed_value(facts, call, condition.children[0]->word);
  const Value wanted = facts.value(condition.children[1]);
  if (given.kind != ValueKind::text || wanted.kind != ValueKind::text) return std::nullopt;
  return (given.text == wanted.text) == (condition.word == "==");
}

bool returns_at_end(const Statement& branch) {
  return !branch.body.empty() && branch.body.back()->kind == StatementKind::return_;
}

// Whether a branch around the statement, or one above that returns, takes it out.
bool is_ruled_out(const SourceFacts& facts, const Call& call, const Statement& statement) {
  for (const Statement* each = &statement; each != nullptr; each = each->parent) {
    for (const Statement* above : before(*each)) {
      if (above->kind != StatementKind::if_ || above->value == nullptr) continue;
      if (returns_at_end(*above) && holds(facts, call, *above->value) == true) return true;
    }
    const Statement* test = each->parent;
    if (test == nullptr || test->kind != StatementKind::if_ || test->value == nullptr) continue;
    const auto taken = holds(facts, call, *test->value);
    const bool is_else = test->body.data() != each->block.data();
    if (taken && *taken == is_else) return true;
  }
  return false;
}

}  // namespace

const Call* returned_loader(const SourceFacts& facts, const Call& call) {
  if (call.target == nullptr || call.name == "torch.nn.Module.__call__") return nullptr;
  const Call* found = nullptr;
  bool is_single = true;
  for_statements(call.target->body, [&](const Statement& statement) {
    if (statement.kind != StatementKind::return_ || statement.value == nullptr) return;
    const Type& type = *statement.value->type;
    if (!type.is(TypeKind::loader) || type.made_by == nullptr) return;
    if (is_ruled_out(facts, call, statement)) return;
    is_single = is_single && (found == nullptr || found == type.made_by);
    found = type.made_by;
  });
  return is_single ? found : nullptr;
}

}  // namespace rooftile::source
