#include "rooftile/analysis/source/hot_path.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "rooftile/analysis/source/leftovers.h"
#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_guards.h"
#include "rooftile/analysis/source/way_conditions.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool is_module_method(const FunctionDef* function) {
  return function != nullptr && function->class_def != nullptr &&
         (function->class_def->is_module || function->class_def->is_autograd_function);
}

bool is_forward(const FunctionDef* function) {
  return is_module_method(function) && function->name == "forward";
}

// `net = Net(); net(torch.randn(1, 3, 32, 32))` under the main guard of a module file that the
// programs only import, or in its function for that: a trial, by which no caller is seen.
bool is_trial(const SourceFacts& facts, const Call& call) {
  if (call.target == nullptr || call.target->file != call.file) return false;
  const FunctionDef* function = call.function;
  if (function != nullptr) {
    return function->class_def == nullptr && function->callers.empty() && !call.file->is_entry &&
           is_one_of(function->name, {"test", "main", "demo", "debug"});
  }
  auto programs = training_programs_of(facts, *call.file);
  std::erase_if(programs, [&](const Program* program) { return program->entry == call.file; });
  if (programs.empty() || call.statement == nullptr) return false;
  return std::ranges::none_of(
      programs, [&](const Program* program) { return runs_in(facts, *program, *call.statement); });
}

// Where the way down to the function starts, trials left out.
const FunctionDef* start_of(const SourceFacts& facts, const Context& context,
                            const FunctionDef* function) {
  if (context.calls.empty()) return function;
  const Call& first = *context.calls.front();
  return is_trial(facts, first) ? first.target : first.function;
}

// The way down starts in a function that nothing runs.
bool starts_nowhere(const SourceFacts& facts, const Context& context, const FunctionDef* function) {
  const FunctionDef* first = context.calls.empty() ? function : context.calls.front()->function;
  return first != nullptr && is_never_used(facts, *first);
}

const FunctionDef* function_of(const Guard& guard) {
  if (guard.statement != nullptr) return guard.statement->function;
  const Statement* decorated = guard.expr == nullptr ? nullptr : guard.expr->statement;
  return decorated == nullptr ? nullptr : decorated->function_def;
}

bool returns_outside(const FunctionDef& function, const Statement& block) {
  bool returns = false;
  for_statements(function.body, [&](const Statement& statement) {
    returns = returns || (statement.kind == StatementKind::return_ && !is_within(statement, block));
  });
  return returns;
}

// `def forward(self, x): return self.sample(x)`: the function runs all of it.
bool stands_for_all(const Context& context, const FunctionDef& forward,
                    const FunctionDef* decorated) {
  const auto call = std::ranges::find(context.calls, &forward, &Call::function);
  if (call == context.calls.end() || decorated == nullptr) return false;
  const auto last = forward.body.empty() ? nullptr : forward.body.back();
  return (*call)->target == decorated && last != nullptr && last->kind == StatementKind::return_ &&
         last->value == (*call)->expr &&
         std::ranges::all_of(forward.body, [&](const Statement* each) {
           return each == last || each->kind == StatementKind::expression;
         });
}

// Gradients are off where the forward on the way is called, or in all of it. A part of it without
// gradients belongs to the training step: the momentum update of a second network.
bool is_forward_without_gradients(Context context, const FunctionDef* function) {
  if (!context.gradients_off()) return false;
  const auto enters = std::ranges::find_if(
      context.calls, [](const Call* call) { return is_forward(call->function); });
  const FunctionDef* forward = enters == context.calls.end() ? function : (*enters)->function;
  if (!is_forward(forward)) return true;
  std::erase_if(context.guards, [&](const Guard& guard) {
    const FunctionDef* place = function_of(guard);
    if (guard.statement == nullptr && stands_for_all(context, *forward, place)) return false;
    if (place == forward) {
      return guard.statement != nullptr && returns_outside(*forward, *guard.statement);
    }
    return (place == function && forward != function) ||
           std::any_of(enters, context.calls.end(),
                       [&](const Call* call) { return call->function == place; });
  });
  return context.gradients_off();
}

// PostProcess, BoxPostProcessor: what evaluation makes of the outputs.
bool is_post_processing(const ClassDef& def) {
  const std::string name = lower(def.name);
  return contains_any(name, {"postprocess", "post_process"});
}

// Through the forward of a module, from a method of a module that nothing seen calls. Without
// gradients it is no training: post-processing, generation.
bool is_unseen_forward(const SourceFacts& facts, const Context& context,
                       const FunctionDef* function) {
  const bool is_open = context.role == LoopRole::other && context.step_loop == nullptr;
  if (!is_open || is_forward_without_gradients(context, function)) return false;
  const FunctionDef* outer = start_of(facts, context, function);
  if (!is_module_method(outer) || is_post_processing(*outer->class_def)) return false;
  const bool passes_forward =
      is_forward(function) ||
      std::any_of(context.calls.begin(), context.calls.end(),
                  [](const Call* call) { return is_forward(call->function); });
  // A base class that calls one of its methods leads to those of all derived classes.
  const bool is_derived = function != nullptr && function != outer && is_module_method(function) &&
                          is_left_over(facts, *function->class_def);
  return passes_forward && !is_derived && !is_left_over(facts, *outer->class_def);
}

bool is_module_object(const Expr& expr) {
  return expr.type->is(TypeKind::module) ||
         is_one_of(last_name(&expr), {"self", "model", "net", "network", "module"});
}

// `else` of `if self.training:`, `None if model.training else f(x)`, `if inference:`: not in a
// training step.
bool is_for_inference(const Context& context) {
  return std::ranges::any_of(context.guards, [](const Guard& guard) {
    if (guard.expr == nullptr) return false;
    const std::string_view name = last_name(guard.expr);
    if (guard.kind == GuardKind::training) {
      return guard.negated && name == "training" && !guard.expr->children().empty() &&
             is_module_object(*guard.expr->children()[0]);
    }
    return !guard.negated && is_one_of(name, {"inference", "is_inference", "infer", "inferring"});
  });
}

// The step of an own optimizer whose caller is not seen.
bool is_unseen_optimizer_step(const SourceFacts& facts, const Context& context,
                              const FunctionDef* function) {
  const bool is_open = context.role == LoopRole::other && context.step_loop == nullptr;
  return is_open && is_training_optimizer_step(facts, start_of(facts, context, function));
}

enum class Where { step_loop, forward_too, evaluation, evaluation_too };

bool matches(const SourceFacts& facts, const Context& context, const FunctionDef* function,
             Where where) {
  const bool is_training = where == Where::step_loop || where == Where::forward_too;
  if (is_training && is_for_inference(context)) return false;
  const bool trains = context.role == LoopRole::training_step;
  const bool evaluates = context.role == LoopRole::evaluation_step;
  switch (where) {
    case Where::step_loop:
      return trains;
    case Where::forward_too:
      return trains ||
             (is_unseen_forward(facts, context, function) &&
              (function == nullptr || !generates(*function))) ||
             is_unseen_optimizer_step(facts, context, function);
    case Where::evaluation:
      return evaluates;
    case Where::evaluation_too:
      return trains || evaluates || is_unseen_forward(facts, context, function);
  }
  return false;
}

// What keeps the statement from running on each pass, where it is one condition alone.
const Guard* only_condition(const SourceFacts& facts, const Context& context) {
  const Guard* only = nullptr;
  for (const Guard& guard : context.guards) {
    if (!guard.in_loop || !is_shut(guard) || guards_backward(facts, context, guard)) continue;
    if (only != nullptr || guard.kind != GuardKind::condition) return nullptr;
    only = &guard;
  }
  return only;
}

// `if teacher: decode(x) else: decode(y)`: one way or the other leads there on each pass.
bool runs_either_way(const SourceFacts& facts, const Context& context,
                     const std::vector<Context>& ways) {
  const Guard* guard = only_condition(facts, context);
  if (guard == nullptr || guard->statement == nullptr || context.step_loop == nullptr) return false;
  return is_reached_when_launched(facts, context) &&
         std::ranges::any_of(ways, [&](const Context& other) {
           const Guard* opposite =
               other.step_loop == context.step_loop && other.role == context.role
                   ? only_condition(facts, other)
                   : nullptr;
           return opposite != nullptr && opposite->expr == guard->expr &&
                  opposite->negated != guard->negated;
         });
}

bool runs_with(const SourceFacts& facts, const Context& context, bool (*is_closed)(const Guard&));

// `def forward_eval(self, x): with torch.no_grad(): return self.forward(x)`
bool is_trial_of_own(const Call& call) {
  const FunctionDef* function = call.function;
  const FunctionDef* forward = call.target;
  if (!is_forward(forward) || !is_module_method(function) || function == forward) return false;
  if (!contains_any(function->name, {"forward", "eval", "test", "infer", "predict", "valid"})) {
    return false;
  }
  const Expr* callee = call.expr->children().empty() ? nullptr : call.expr->children().front();
  const bool is_self =
      callee != nullptr && (callee->word() == "self" ||
                            (call.receiver != nullptr && last_name(call.receiver) == "self"));
  return is_self && !function->class_def->is_lightning_module && call.statement != nullptr;
}

// `def infer(self, x): self.eval(); return self.forward(x)`
bool switches_own_mode(const FunctionDef& function) {
  return std::ranges::any_of(function.calls, [](const Call* call) {
    return call->method == "eval" && call->receiver != nullptr && call->receiver->word() == "self";
  });
}

bool is_without_gradients(const SourceFacts& facts, const Call& call) {
  if (call.function != nullptr && switches_own_mode(*call.function)) return true;
  const auto contexts = facts.contexts(call);
  return std::ranges::all_of(contexts, &Context::gradients_off);
}

// The way from a forward on that nothing seen calls but its own class, without gradients: what
// trains calls it from outside.
std::optional<Context> way_from_forward(const SourceFacts& facts, const Context& whole,
                                        const FunctionDef* function) {
  const auto enters =
      std::ranges::find_if(whole.calls, [](const Call* call) { return is_trial_of_own(*call); });
  if (enters == whole.calls.end()) return std::nullopt;
  const FunctionDef* forward = (*enters)->target;
  const bool is_alone = std::ranges::all_of(forward->callers, [&](const Call* caller) {
    return is_trial_of_own(*caller) && is_without_gradients(facts, *caller);
  });
  if (!is_alone) return std::nullopt;
  Context way;
  way.calls.assign(std::next(enters), whole.calls.end());
  std::ranges::copy_if(whole.guards, std::back_inserter(way.guards), [&](const Guard& guard) {
    const FunctionDef* place = function_of(guard);
    if (place == nullptr && guard.expr != nullptr && guard.expr->statement != nullptr) {
      place = guard.expr->statement->function;
    }
    return place == forward || place == function ||
           std::ranges::any_of(way.calls,
                               [&](const Call* call) { return call->function == place; });
  });
  return way;
}

// The ways to a statement, and those from forwards on.
template <class Node>
std::vector<Context> ways_to(const SourceFacts& facts, const Node& node,
                             const FunctionDef* function) {
  std::vector<Context> ways = facts.contexts(node);
  const std::size_t count = ways.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (auto way = way_from_forward(facts, ways[i], function)) ways.push_back(std::move(*way));
  }
  return ways;
}

template <class Node>
bool any_way(const SourceFacts& facts, const Node& node, const File& file,
             const FunctionDef* function, Where where) {
  if (!trains_on_gpu(facts, file)) return false;
  const std::vector<Context> contexts = ways_to(facts, node, function);
  return std::any_of(contexts.begin(), contexts.end(), [&](const Context& context) {
    if (!matches(facts, context, function, where)) return false;
    if (starts_nowhere(facts, context, function)) return false;
    if (where == Where::evaluation_too) return runs_with(facts, context, is_shut_for_good);
    return runs_on_each_pass(facts, context) || runs_either_way(facts, context, contexts);
  });
}

// Whether no guard closes the way, with all options at their defaults.
bool runs_with(const SourceFacts& facts, const Context& whole, bool (*is_closed)(const Guard&)) {
  if (!is_open_on_the_way(whole)) return false;
  Context context = whole;
  for (Guard& guard : context.guards) {
    if (is_setting_on_the_way(facts, whole, guard)) guard.kind = GuardKind::option;
  }
  std::erase_if(context.guards,
                [&](const Guard& guard) { return holds_on_the_way(whole, guard).has_value(); });
  const bool has_loop = context.step_loop != nullptr;
  const bool is_skipped =
      std::any_of(context.guards.begin(), context.guards.end(), [&](const Guard& guard) {
        return (guard.in_loop || !has_loop) && is_closed(guard) &&
               !guards_backward(facts, context, guard);
      });
  return !is_skipped && is_reached_when_launched(facts, context);
}

}  // namespace

bool is_open_on_the_way(const Context& context) {
  return std::ranges::none_of(context.guards, [&](const Guard& guard) {
    const auto holds = holds_on_the_way(context, guard);
    return holds.has_value() && *holds == guard.negated;
  });
}

bool runs_on_each_pass(const SourceFacts& facts, const Context& context) {
  return runs_with(facts, context, is_shut);
}

bool is_reached_when_launched(const SourceFacts& facts, Context context) {
  std::erase_if(context.guards, [](const Guard& guard) {
    const bool is_choice = guard.kind == GuardKind::condition || guard.kind == GuardKind::option;
    return is_choice && is_about_launch(guard) && !truth_on_gpu(guard.expr);
  });
  return is_reached_by_default(facts, context);
}

std::vector<const Call*> launched_calls(const SourceFacts& facts,
                                        std::initializer_list<std::string_view> full_names) {
  std::vector<const Call*> calls = facts.calls(full_names);
  std::erase_if(calls, [&](const Call* call) {
    const auto programs = training_programs_of(facts, *call->file);
    const bool runs = call->statement == nullptr ||
                      std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
                        return runs_in(facts, *program, *call->statement);
                      });
    if (programs.empty() || !runs) return true;
    const auto contexts = facts.contexts(*call);
    return std::none_of(contexts.begin(), contexts.end(), [&](const Context& context) {
      return !lacks_items_on_the_way(context) && is_reached_when_launched(facts, context) &&
             !starts_nowhere(facts, context, call->function);
    });
  });
  return calls;
}

bool is_hot(const SourceFacts& facts, const Statement& statement) {
  return any_way(facts, statement, *statement.file, statement.function, Where::forward_too);
}

std::vector<HalfWay> half_ways(const SourceFacts& facts, const Statement& statement) {
  std::vector<HalfWay> ways;
  for (const Context& context : facts.contexts(statement)) {
    const Guard* guard = only_condition(facts, context);
    const bool is_half = guard != nullptr && guard->statement != nullptr &&
                         guard->statement->kind == StatementKind::if_ &&
                         matches(facts, context, statement.function, Where::step_loop) &&
                         is_reached_when_launched(facts, context);
    if (is_half) ways.push_back({guard->expr, guard->negated, context.step_loop});
  }
  return ways;
}

bool is_hot(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::forward_too);
}

bool is_hot_or_evaluated(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::evaluation_too);
}

bool is_evaluated_on_gpu(const SourceFacts& facts, const Call& call) {
  if (call.file->is_test) return false;
  const auto programs = facts.programs_of(*call.file);
  const bool has_entry = std::ranges::any_of(
      programs, [](const Program* program) { return program->entry != nullptr; });
  if (!has_entry) return false;
  const auto contexts = facts.contexts(call);
  return std::ranges::any_of(contexts, [&](const Context& context) {
    return context.role == LoopRole::evaluation_step && context.step_loop != nullptr &&
           context.step_loop->on_gpu && runs_on_each_pass(facts, context);
  });
}

bool is_in_step_loop(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::step_loop);
}

bool is_in_evaluation_loop(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::evaluation);
}

const Statement* training_loop_around(const Statement& statement) {
  for (const Statement* outer = &statement; outer != nullptr; outer = outer->parent) {
    if (outer->kind == StatementKind::function) return nullptr;
    if (outer->loop != nullptr && outer->loop->role == LoopRole::training_step) return outer;
  }
  return nullptr;
}

const Statement* place_of_work(const Statement& statement) {
  if (const Statement* loop = training_loop_around(statement)) return loop;
  return statement.function == nullptr ? nullptr : statement.function->statement;
}

}  // namespace rooftile::source
