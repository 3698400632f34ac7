// The ways by which a statement is reached: up through blocks, loops and callers.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/workload/source_guards.h"

namespace rooftile::source {
namespace {

constexpr std::size_t kMaxContexts = 16;
// Each way up ends in one of the contexts, so that the depth costs little.
constexpr std::size_t kMaxCallDepth = 24;
constexpr std::size_t kMaxGuards = 64;
constexpr std::size_t kMaxEarlier = 500;

// Conditions inside the expression itself: `x if c else y`, `c and x`.
void add_inline_guards(const SourceFacts& facts, const Call& call, Context& context) {
  const Expr* inner = call.expr;
  for (const Expr* outer = inner->parent; outer != nullptr; outer = outer->parent) {
    std::vector<Guard> guards;
    if (outer->kind == ExprKind::conditional && outer->children().size() == 3 &&
        inner != outer->children()[1]) {
      guards = guards_of_condition(facts, outer->children()[1], call.statement,
                                   inner == outer->children()[2]);
    } else if (outer->kind == ExprKind::logical && outer->word() != "not" &&
               !outer->children().empty() && inner != outer->children()[0]) {
      guards =
          guards_of_condition(facts, outer->children()[0], call.statement, outer->word() == "or");
    }
    context.guards.insert(context.guards.end(), guards.begin(), guards.end());
    inner = outer;
  }
}

// Guards are collected from the inside outwards and turned round at the end.
class Climber {
 public:
  explicit Climber(const SourceFacts& facts) : facts_(facts) {}

  void climb(const Statement& start, Context context) {
    if (context.calls.empty()) start_ = start.function;
    const Statement* inner = &start;
    add_early_exits(start, context);
    for (const Statement* outer = start.parent; outer != nullptr; outer = outer->parent) {
      if (outer->kind == StatementKind::function || outer->kind == StatementKind::class_) break;
      add_guards(*outer, *inner, context);
      if (outer->loop != nullptr) enter_loop(*outer, *inner, context);
      add_early_exits(*outer, context);
      inner = outer;
    }
    leave_function(start.function, std::move(context));
  }

  std::vector<Context> take() { return std::move(found_); }

 private:
  void add(const std::vector<Guard>& guards, Context& context) {
    for (const Guard& guard : guards) {
      if (context.guards.size() >= kMaxGuards) return;
      context.guards.push_back(guard);
    }
  }

  void add_guards(const Statement& outer, const Statement& inner, Context& context) {
    switch (outer.kind) {
      case StatementKind::if_: {
        const bool otherwise = std::ranges::find(outer.otherwise, &inner) != outer.otherwise.end();
        add(guards_of_condition(facts_, outer.value, &outer, otherwise), context);
        return;
      }
      case StatementKind::with_:
        for (const WithItem& item : outer.items) {
          add({guard_of_manager(item.context, &outer)}, context);
        }
        return;
      case StatementKind::handler:
        if (!outer.word.starts_with("except")) return;
        {
          Guard guard;
          guard.kind = GuardKind::exception;
          guard.statement = &outer;
          add({guard}, context);
        }
        return;
      default:
        return;
    }
  }

  // `if step % 100: continue` above guards what follows, and so does a return in a function that is
  // called on each step. What ends the loop says nothing about the passes before.
  void add_early_exits(const Statement& statement, Context& context) {
    const auto all = before(statement);
    for (const Statement* earlier : all.last(std::min(all.size(), kMaxEarlier))) {
      if (earlier->kind != StatementKind::if_ || earlier->body.empty()) continue;
      const StatementKind exit = earlier->body.back()->kind;
      const bool skips = exit == StatementKind::continue_ ||
                         (exit == StatementKind::return_ && loop_around(earlier) == nullptr);
      if (!skips || !earlier->otherwise.empty()) continue;
      add(guards_of_condition(facts_, earlier->value, earlier, true), context);
    }
  }

  static void enter_loop(const Statement& loop, const Statement& inner, Context& context) {
    if (std::ranges::find(loop.otherwise, &inner) != loop.otherwise.end()) return;
    if (context.step_loop != nullptr) return;
    if (!loop.loop->is_step()) {
      ++context.inner_loops;
      return;
    }
    context.step_loop = loop.loop;
    context.role = loop.loop->role;
    for (Guard& guard : context.guards) guard.in_loop = true;
  }

  void leave_function(const FunctionDef* function, Context context) {
    if (function == nullptr) return finish(std::move(context));
    for (const Expr* decorator : function->decorators) {
      add({guard_of_manager(decorator, nullptr)}, context);
    }
    const bool is_hook =
        context.step_loop == nullptr && function->class_def != nullptr &&
        (function->class_def->is_lightning_module || function->class_def->is_lightning_callback);
    if (is_hook) mark_hook(function->name, context);
    if (context.step_loop == nullptr) mark_step(*function, context);
    bool followed = false;
    if (context.calls.size() < kMaxCallDepth) {
      for (const Call* caller : function->callers) {
        if (found_.size() >= kMaxContexts) return;
        if (std::ranges::find(context.calls, caller) != context.calls.end()) continue;
        if (caller->statement == nullptr || hands_over_other(*function, *caller, context)) continue;
        Context above = context;
        add_training_choice(*caller, above);
        above.calls.push_back(caller);
        followed = true;
        climb(*caller->statement, std::move(above));
      }
    }
    if (!followed) finish(std::move(context));
  }

  // `None if model.training else f(x)` around the call.
  void add_training_choice(const Call& caller, Context& context) {
    Context around;
    add_inline_guards(facts_, caller, around);
    std::erase_if(around.guards,
                  [](const Guard& guard) { return guard.kind != GuardKind::training; });
    add(around.guards, context);
  }

  // `timed(load)` does not lead to `train`, which another call hands to `timed(run)`.
  bool hands_over_other(const FunctionDef& function, const Call& caller,
                        const Context& context) const {
    if (context.calls.empty()) return false;
    const Call& inner = *context.calls.back();
    if (inner.function != &function || inner.receiver != nullptr ||
        inner.expr->children().empty()) {
      return false;
    }
    const Expr& callee = *inner.expr->children().front();
    const bool may_be_parameter = callee.kind == ExprKind::name && callee.binding() == nullptr;
    const Argument* given =
        may_be_parameter ? passed_argument(caller, function, callee.word()) : nullptr;
    const FunctionDef* handed = given == nullptr ? nullptr : given->value->type->function;
    const std::size_t count = context.calls.size();
    const FunctionDef* reached = count > 1 ? context.calls[count - 2]->function : start_;
    return handed != nullptr && handed != reached;
  }

  static void mark_hook(std::string_view name, Context& context) {
    // What a hook calls by way of others is mostly for a log, under a condition of its own.
    const bool is_near = context.calls.size() <= 1;
    const bool is_between =
        is_near &&
        is_one_of(name, {"on_train_batch_start", "on_train_batch_end", "on_before_zero_grad",
                         "on_after_backward", "on_before_optimizer_step"});
    if (name == "training_step" || is_between) enter_step(LoopRole::training_step, context);
    if (name == "validation_step" || name == "test_step") {
      enter_step(LoopRole::evaluation_step, context);
    }
  }

  static void mark_step(const FunctionDef& function, Context& context) {
    if (function.is_training_step) enter_step(LoopRole::training_step, context);
    if (function.is_evaluation_step) enter_step(LoopRole::evaluation_step, context);
  }

  static void enter_step(LoopRole role, Context& context) {
    context.role = role;
    for (Guard& guard : context.guards) guard.in_loop = true;
  }

  void finish(Context context) {
    if (found_.size() >= kMaxContexts) return;
    std::ranges::reverse(context.guards);
    std::ranges::reverse(context.calls);
    found_.push_back(std::move(context));
  }

  const SourceFacts& facts_;
  const FunctionDef* start_ = nullptr;  // where the way begins
  std::vector<Context> found_;
};

}  // namespace

bool Context::has(GuardKind kind) const {
  return std::ranges::any_of(
      guards, [&](const Guard& guard) { return guard.kind == kind && !guard.negated; });
}

bool Context::gradients_off() const {
  bool off = false;
  for (const Guard& guard : guards) {
    if (guard.kind == GuardKind::no_grad || guard.kind == GuardKind::inference_mode) off = true;
    if (guard.kind == GuardKind::enable_grad) {
      const Call* call = guard.expr == nullptr ? nullptr : guard.expr->call();
      const bool first_false = call != nullptr && !call->arguments.empty() &&
                               call->arguments[0].value->word() == "False";
      off = first_false;
    }
  }
  return off;
}

bool Context::each_step() const {
  return std::ranges::none_of(guards, [](const Guard& guard) {
    if (!guard.in_loop) return guard.kind == GuardKind::never && !guard.negated;
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
  });
}

std::vector<Context> SourceFacts::contexts(const Statement& statement) const {
  Climber climber(*this);
  climber.climb(statement, {});
  return climber.take();
}

std::vector<Context> SourceFacts::contexts(const Call& call) const {
  if (call.statement == nullptr) return {Context{}};
  Context start;
  add_inline_guards(*this, call, start);
  Climber climber(*this);
  // The header of an `if`, `for` or `with` runs outside of what it guards.
  climber.climb(*call.statement, std::move(start));
  return climber.take();
}

bool SourceFacts::in_each_training_step(const Call& call) const {
  return std::ranges::any_of(contexts(call), [](const Context& context) {
    return context.role == LoopRole::training_step && context.each_step();
  });
}

}  // namespace rooftile::source
