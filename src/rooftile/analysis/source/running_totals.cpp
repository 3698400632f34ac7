#include "rooftile/analysis/source/running_totals.h"

#include <algorithm>
#include <span>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/script/flow/queries.h"

namespace rooftile::source {

std::string_view root_name(const Expr* expr) {
  while (expr != nullptr && expr->kind == ExprKind::subscript) expr = expr->children().front();
  return last_name(expr);
}

namespace {

// `total = …`, `total, count = …`; an item of it is not all of it.
bool sets_name(const Expr* target, std::string_view total) {
  if (target == nullptr || target->kind == ExprKind::subscript) return false;
  if (target->kind == ExprKind::tuple || target->kind == ExprKind::list) {
    return std::ranges::any_of(target->children(),
                               [&](const Expr* part) { return sets_name(part, total); });
  }
  return root_name(target) == total;
}

bool goes_on(const SourceFacts& facts, const Expr* value, std::string_view total) {
  return value != nullptr &&
         (uses_variable(value, total) || script::is_made_of(facts, *value, total));
}

// Whether each pass starts the total anew.
bool is_reset(const SourceFacts& facts, const Loop& loop, std::string_view total) {
  return any_statement(loop.statement->body, [&](const Statement& statement) {
    const bool is_set = statement.kind == StatementKind::assignment && statement.word == "=" &&
                        sets_name(statement.target, total);
    const bool is_guarded = statement.parent->kind == StatementKind::if_;
    return is_set && !is_guarded && !goes_on(facts, statement.value, total);
  });
}

bool sets_anew(const SourceFacts& facts, std::span<const Statement* const> block,
               std::string_view total) {
  return std::ranges::any_of(block, [&](const Statement* each) {
    return each->kind == StatementKind::assignment && each->word == "=" &&
           sets_name(each->target, total) && !goes_on(facts, each->value, total);
  });
}

// The total starts in the pass, in front of what adds to it, be both under one condition.
bool is_set_before(const SourceFacts& facts, const Statement& sum, const Statement& loop,
                   std::string_view total) {
  for (const Statement* at = &sum; at != nullptr && at != &loop; at = at->parent) {
    if (sets_anew(facts, before(*at), total)) return true;
  }
  return false;
}

// Whether the pass does more than its inner loop: it goes through a loader, or has a backward of
// its own.
bool is_pass_over_data(const Statement& outer, const Statement& inner) {
  if (outer.loop->loader != nullptr) return true;
  const auto calls = calls_inside(outer);
  return std::ranges::any_of(calls, [&](const Call* call) {
    return call->method == "backward" && !is_within(*call->statement, inner);
  });
}

// `for batch in loader: total = 0; for _ in range(critic_steps): total += loss`: a total of the few
// steps on one batch.
bool is_total_of_one_pass(const SourceFacts& facts, const Loop& loop, std::string_view total) {
  bool is_set = false;
  for (const Statement* at = loop.statement; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function || at->kind == StatementKind::class_) return false;
    if (at != loop.statement && at->loop != nullptr) {
      return is_set && is_pass_over_data(*at, *loop.statement);
    }
    is_set = is_set || sets_anew(facts, before(*at), total);
  }
  return false;
}

}  // namespace

bool starts_anew(const SourceFacts& facts, const Loop& loop, const Statement& sum,
                 std::string_view total) {
  return is_reset(facts, loop, total) || is_set_before(facts, sum, *loop.statement, total) ||
         is_total_of_one_pass(facts, loop, total);
}

}  // namespace rooftile::source
