#include "rooftile/script/reach/passes.h"

#include <algorithm>
#include <optional>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/size_guards.h"
#include "rooftile/script/reach/ways_up.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kRareInterval = 10;

bool is_rare(const Value& interval) {
  // `% accumulation_steps`: each step of the optimizer.
  if (!interval.known() && contains(lower(last_name(interval.expr)), "accum")) return false;
  // `0 < n <= step and step % n == 0` with a 0 by default: never.
  return interval.kind != ValueKind::integer || interval.integer >= kRareInterval ||
         interval.integer <= 0;
}

// `if bad: continue` or `if not ok: continue` above: nearly all passes go on.
bool is_early_exit(const Guard& guard) {
  if (guard.statement == nullptr || !guard.statement->otherwise.empty()) return false;
  const Expr* outer = guard.expr == nullptr ? nullptr : guard.expr->parent;
  const bool is_turned =
      outer != nullptr && outer->kind == ExprKind::logical && outer->word() == "not";
  return guard.negated || is_turned;
}

// `if kind in known: run() else: raise ValueError(kind)`: all passes that go on run it.
bool raises_otherwise(const Guard& guard) {
  const Statement* branch = guard.statement;
  if (branch == nullptr || branch->kind != StatementKind::if_) return false;
  const auto& other = guard.negated ? branch->body : branch->otherwise;
  return !other.empty() && other.back()->kind == StatementKind::raise_;
}

std::string_view guard_text(const Guard& guard) {
  if (guard.expr == nullptr) return {};
  return guard.expr->statement->file->slice(guard.expr->range);
}

// `if step > last: save(); sys.exit()`: what stands there runs once.
bool ends_the_loop(const Guard& guard) {
  const Statement* branch = guard.statement;
  if (branch == nullptr || branch->kind != StatementKind::if_ || guard.negated) return false;
  if (branch->body.empty()) return false;
  const Statement& last = *branch->body.back();
  if (last.kind == StatementKind::break_ || last.kind == StatementKind::raise_) return true;
  // That of a helper without a loop ends one call of it.
  if (last.kind == StatementKind::return_) return loop_around(branch) != nullptr;
  const Call* call = last.value == nullptr ? nullptr : last.value->call();
  return call != nullptr && is_one_of(call->method, {"exit", "_exit", "quit"});
}

bool assigns(const Statement& branch, std::string_view target) {
  return any_statement(branch.body, [&](const Statement& statement) {
    const bool is_it = statement.kind == StatementKind::assignment &&
                       statement.file->slice(statement.target->range) == target;
    return is_it;
  });
}

// `if key not in cache`, `if self.graph is None: self.graph = …`: true the first time.
bool is_first_time(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children().size() == 2 && guard.statement != nullptr;
  if (!compares) return false;
  const bool is_key =
      expr->children()[0]->kind != ExprKind::text && expr->children()[1]->kind != ExprKind::call;
  if (expr->word() == "not in") return is_key && !guard.negated;
  const bool asks_none = expr->word() == "is" && expr->children()[1]->kind == ExprKind::none;
  return asks_none && !guard.negated && guard.statement->kind == StatementKind::if_ &&
         expr->children()[0]->kind == ExprKind::attribute &&
         assigns(*guard.statement, guard.statement->file->slice(expr->children()[0]->range));
}

// The text or texts that a name is compared with: `kind == "conv"`, `kind in ("conv", "pool")`.
const Expr* compared_with_text(const Expr* expr) {
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children().size() == 2 && is_one_of(expr->word(), {"==", "in"}) &&
                        expr->children()[0]->kind == ExprKind::name;
  if (!compares) return nullptr;
  const Expr& right = *expr->children()[1];
  const bool is_list = expr->word() == "in" &&
                       (right.kind == ExprKind::list || right.kind == ExprKind::tuple) &&
                       !right.children().empty();
  const Expr& first = is_list ? *right.children()[0] : right;
  return first.kind == ExprKind::text ? expr->children()[0] : nullptr;
}

// Whether the value uses a variable that the target sets.
bool uses_name_of(const Expr& target, const Expr& value) {
  return any_inside(&target, [&](const Expr& part) {
    return part.kind == ExprKind::name && uses_variable(&value, part.word());
  });
}

// `for layer in layers: if layer["type"] == "yolo": … elif …` of a module goes through all of its
// layers on each pass, whatever their kinds are.
bool chooses_layer(const Guard& guard) {
  const Expr* kind = compared_with_text(guard.expr);
  const FunctionDef* function = kind == nullptr ? nullptr : kind->statement->function;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  const Statement* binding = kind == nullptr ? nullptr : kind->binding();
  if (def == nullptr || !def->is_module || binding == nullptr) return false;
  if (binding->kind == StatementKind::for_) return true;
  const Statement* loop = binding->parent;
  return binding->kind == StatementKind::assignment && binding->value != nullptr &&
         loop != nullptr && loop->kind == StatementKind::for_ &&
         uses_name_of(*loop->target, *binding->value);
}

bool is_item_of_loop(const Expr& expr) {
  const Statement* binding = expr.kind == ExprKind::name ? expr.binding() : nullptr;
  return binding != nullptr && binding->kind == StatementKind::for_ && binding->loop != nullptr &&
         binding->loop->role == LoopRole::other;
}

// `for key, value in losses.items(): if "loss" in key:` takes some of those that the loop goes
// through, on each pass of the loop around it.
bool picks_items(const Expr& expr) {
  if (expr.kind == ExprKind::logical && expr.word() != "not") {
    return std::ranges::all_of(expr.children(),
                               [](const Expr* part) { return picks_items(*part); });
  }
  if (expr.call() != nullptr) {
    return is_one_of(expr.call()->method, {"startswith", "endswith"}) &&
           expr.call()->receiver != nullptr && is_item_of_loop(*expr.call()->receiver);
  }
  const bool looks_inside = expr.kind == ExprKind::comparison && expr.children().size() == 2 &&
                            is_one_of(expr.word(), {"in", "not in"});
  return looks_inside && expr.children()[0]->kind == ExprKind::text &&
         is_item_of_loop(*expr.children()[1]);
}

// `for name in names: if name != "stereo":` leaves out one of those that the loop goes through.
bool leaves_one_out(const Guard& guard) {
  const Expr* expr = guard.expr;
  if (expr != nullptr && picks_items(*expr)) return true;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->word() == "!=" && expr->children().size() == 2 && !guard.negated;
  if (!compares || expr->children()[1]->kind != ExprKind::text) return false;
  const Statement* binding = expr->children()[0]->binding();
  return expr->children()[0]->kind == ExprKind::name && binding != nullptr &&
         binding->kind == StatementKind::for_;
}

// `if self.step >= self.last_step: evaluate(); return`, whether the count is seen to change or not.
bool ends_by_count(const Guard& guard) {
  return guard.expr != nullptr && ends_the_loop(guard) &&
         find_inside(guard.expr, [](const Expr& part) {
           return part.kind == ExprKind::comparison && part.children().size() == 2 &&
                  part.word().starts_with(">") &&
                  contains_any(last_name(part.children()[0]), {"step", "iter", "epoch"});
         }) != nullptr;
}

// `if time.time() < self.end:` holds until the time is up.
bool is_about_time(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children().size() == 2 && expr->word().starts_with("<") &&
                        !guard.negated;
  const Call* clock = compares ? expr->children()[0]->call() : nullptr;
  return clock != nullptr &&
         is_one_of(clock->name, {"time.time", "time.perf_counter", "time.monotonic"});
}

// `if ema: ema.update(model)`: whether there is such an object is the same in each pass.
bool asks_for_object(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool is_plain = expr != nullptr && !guard.negated &&
                        (expr->kind == ExprKind::name || expr->kind == ExprKind::attribute);
  if (!is_plain) return false;
  const Type& type = *expr->type;
  if (type.class_def != nullptr && !type.is(TypeKind::class_)) {
    return type.class_def->method("__bool__") == nullptr &&
           type.class_def->method("__len__") == nullptr;
  }
  return type.is(TypeKind::module) || type.is(TypeKind::optimizer) ||
         type.is(TypeKind::scheduler) || type.is(TypeKind::scaler);
}

// `if "aux_outputs" in outputs:` is the same for all that one network gives.
bool is_about_keys(const Guard& guard) {
  const Expr* expr = guard.expr;
  return expr != nullptr && expr->kind == ExprKind::comparison && expr->word() == "in" &&
         !guard.negated && expr->children().size() == 2 &&
         expr->children()[0]->kind == ExprKind::text &&
         expr->children()[1]->kind == ExprKind::name &&
         contains_any(expr->children()[1]->word(), {"out", "batch", "pred", "input", "extras"});
}

bool returns_at_once(const Guard& guard) {
  const Statement* branch = guard.statement;
  return branch != nullptr && branch->kind == StatementKind::if_ && branch->otherwise.empty() &&
         !branch->body.empty() && branch->body.back()->kind == StatementKind::return_;
}

// `if step % n != 0: return` at the top of an update whose loop is not seen: the passes that go on
// are those that train.
bool skips_update(const Loop* step_loop, const Guard& guard) {
  if (step_loop != nullptr || guard.kind != GuardKind::every_n) return false;
  if (!returns_at_once(guard) || guard.statement->function == nullptr) return false;
  return any_call_below(*guard.statement->function, kMaxCallDepth,
                        [](const Call& call) { return call.method == "backward"; });
}

// On which side of an `if` a statement stands; empty where it is not in it.
std::optional<bool> is_in_else(const Statement& inner, const Statement& branch) {
  const Statement* at = &inner;
  while (at != nullptr && at->parent != &branch) at = at->parent;
  if (at == nullptr) return std::nullopt;
  return std::ranges::find(branch.otherwise, at) != branch.otherwise.end();
}

bool asks_for_none(const Expr* expr) {
  return expr != nullptr && expr->kind == ExprKind::comparison && expr->children().size() == 2 &&
         expr->word().starts_with("is") && expr->children()[1]->kind == ExprKind::none;
}

// `if p.requires_grad:`, `if p.grad is not None:` picks among the weights, on each pass the same.
bool picks_weights(const Guard& guard) {
  const Expr* expr = asks_for_none(guard.expr) ? guard.expr->children()[0] : guard.expr;
  return expr != nullptr && expr->kind == ExprKind::attribute &&
         is_one_of(expr->word(), {"requires_grad", "grad"});
}

// `ignore = group.get("ignore"); if not ignore:` of a group of weights: a setting of the optimizer.
bool asks_for_group_setting(const Guard& guard) {
  const Expr* expr = asks_for_none(guard.expr) ? guard.expr->children()[0] : guard.expr;
  const Expr* made = expr == nullptr || expr->kind != ExprKind::name ? nullptr : resolved(expr);
  if (made == nullptr) return false;
  const Expr* group = made->kind == ExprKind::subscript ? made->children()[0] : nullptr;
  if (made->call() != nullptr && made->call()->method == "get") group = made->call()->receiver;
  return group != nullptr && is_one_of(last_name(group), {"group", "param_group"});
}

}  // namespace

bool is_from_some_step_on(const Guard& guard) {
  if (ends_the_loop(guard)) return false;
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children().size() == 2 && expr->word().starts_with(">");
  if (!compares) return false;
  const Expr* left = expr->children()[0];
  if (left->call() != nullptr) return left->call()->name == "len";
  return contains_any(last_name(left), {"step", "iter", "epoch"});
}

bool is_about_launch(const Guard& guard) {
  return contains_any(lower(guard_text(guard)), {"cuda", "gpu", "distributed", "world_size", "ddp",
                                                 "rank", "'cpu'", "\"cpu\""});
}

bool guards_backward(const SourceFacts& facts, const Loop* step_loop, const Guard& guard) {
  if (skips_update(step_loop, guard)) return true;
  const Call* backward = step_loop == nullptr ? nullptr : step_loop->backward;
  const bool is_branch = guard.kind == GuardKind::condition && guard.statement != nullptr &&
                         guard.statement->kind == StatementKind::if_;
  if (backward == nullptr || !is_branch) return false;
  const auto is_there = [&](const Call& call) {
    return is_in_else(*call.statement, *guard.statement) == guard.negated;
  };
  const bool may_be =
      is_there(*backward) || (backward->function != nullptr &&
                              any_call_above(*backward->function, kMaxCallDepth, is_there));
  return may_be && !leads_there(facts, *backward, [&](const Guard& one) {
           return one.expr == guard.expr && one.negated == guard.negated;
         });
}

bool is_shut(const Guard& guard) {
  if (is_first_time(guard) || ends_by_count(guard) || is_for_nothing(guard)) return true;
  if (is_about_emptiness(guard) || is_about_shape(guard) || is_about_time(guard)) return false;
  if (is_about_keys(guard) || picks_weights(guard) || asks_for_group_setting(guard)) return false;
  switch (guard.kind) {
    case GuardKind::exception:
      return true;
    case GuardKind::condition:
      return !is_early_exit(guard) && !raises_otherwise(guard) && !leaves_one_out(guard) &&
             !is_about_launch(guard) && !is_from_some_step_on(guard) && !chooses_layer(guard) &&
             !asks_for_object(guard);
    case GuardKind::once:
    case GuardKind::debug:
    case GuardKind::never:
      return !guard.negated;
    case GuardKind::every_n:
      return !guard.negated && is_rare(guard.interval);
    default:
      return false;
  }
}

bool is_shut_for_good(const Guard& guard) {
  const bool may_hold =
      (guard.kind == GuardKind::condition && !is_first_time(guard)) || is_for_nothing(guard);
  return is_shut(guard) && (!may_hold || ends_the_loop(guard));
}

}  // namespace rooftile::source
