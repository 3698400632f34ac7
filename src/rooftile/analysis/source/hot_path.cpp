#include "rooftile/analysis/source/hot_path.h"

#include <algorithm>
#include <optional>

#include "rooftile/analysis/source/asked_truth.h"
#include "rooftile/analysis/source/leftovers.h"
#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_guards.h"
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
    if (place == forward) {
      return guard.statement != nullptr && returns_outside(*forward, *guard.statement);
    }
    return (place == function && forward != function) ||
           std::any_of(enters, context.calls.end(),
                       [&](const Call* call) { return call->function == place; });
  });
  return context.gradients_off();
}

// Through the forward of a module, from a method of a module that nothing seen calls. Without
// gradients it is no training: post-processing, generation.
bool is_unseen_forward(const SourceFacts& facts, const Context& context,
                       const FunctionDef* function) {
  const bool is_open = context.role == LoopRole::other && context.step_loop == nullptr;
  if (!is_open || is_forward_without_gradients(context, function)) return false;
  const FunctionDef* outer = start_of(facts, context, function);
  if (!is_module_method(outer)) return false;
  const bool passes_forward =
      is_forward(function) ||
      std::any_of(context.calls.begin(), context.calls.end(),
                  [](const Call* call) { return is_forward(call->function); });
  // A base class that calls one of its methods leads to those of all derived classes.
  const bool is_derived = function != nullptr && function != outer && is_module_method(function) &&
                          is_left_over(facts, *function->class_def);
  return passes_forward && !is_derived && !is_left_over(facts, *outer->class_def);
}

// `else` of `if self.training:`, `if inference:`: not in a training step.
bool is_for_inference(const Context& context) {
  return std::ranges::any_of(context.guards, [](const Guard& guard) {
    if (guard.expr == nullptr) return false;
    const std::string_view name = last_name(guard.expr);
    if (guard.kind == GuardKind::training) {
      return guard.negated && name == "training" && !guard.expr->children.empty() &&
             last_name(guard.expr->children[0]) == "self";
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

template <class Node>
bool any_way(const SourceFacts& facts, const Node& node, const File& file,
             const FunctionDef* function, Where where) {
  if (!trains_on_gpu(facts, file)) return false;
  const auto contexts = facts.contexts(node);
  return std::any_of(contexts.begin(), contexts.end(), [&](const Context& context) {
    if (!matches(facts, context, function, where)) return false;
    if (where == Where::evaluation_too) return runs_with(facts, context, is_shut_for_good);
    return runs_on_each_pass(facts, context) || runs_either_way(facts, context, contexts);
  });
}

// `norm_type = float(norm_type)`: the number stays the same.
const Expr* before_conversion(const Expr* name) {
  const Expr* made = resolved(name);
  const bool converts = made != name && made->call != nullptr &&
                        is_one_of(made->call->name, {"float", "int", "str"}) &&
                        made->call->arguments.size() == 1;
  return converts ? made->call->arguments.front().value : name;
}

// What the way down here gives for a parameter: the argument, or the default that is left, by way
// of the parameters of callers. Null where neither is seen.
const Expr* given_on_the_way(const Context& context, const Expr* name) {
  const Expr* given = nullptr;
  for (std::size_t hops = 0; hops <= context.calls.size(); ++hops) {
    name = before_conversion(name);
    const FunctionDef* function = name->statement == nullptr ? nullptr : name->statement->function;
    if (function == nullptr || name->kind != ExprKind::name || name->binding != nullptr) break;
    const auto& parameters = function->parameters;
    const auto found = std::ranges::find(parameters, name->word, &Parameter::name);
    const auto call = std::ranges::find(context.calls, function, &Call::target);
    if (found == parameters.end()) break;
    if (call == context.calls.end()) return given;
    const Argument* argument = passed_argument(**call, *function, name->word);
    if (argument == nullptr) return (*call)->unknown_arguments ? nullptr : found->default_value;
    given = name = argument->value;
  }
  return given;
}

bool is_written_number(const Expr& expr) {
  return expr.kind == ExprKind::integer || expr.kind == ExprKind::real;
}

bool is_literal(const Expr& expr) {
  return is_written_number(expr) || expr.kind == ExprKind::none || expr.kind == ExprKind::boolean ||
         expr.kind == ExprKind::text;
}

// `inf`, math.inf, float("inf"): no number that is written out.
bool is_infinity(const Expr& expr) {
  if (is_one_of(last_name(&expr), {"inf", "Inf", "infty"})) return true;
  return expr.call != nullptr && expr.call->name == "float" && !expr.call->arguments.empty() &&
         expr.call->arguments.front().value->word.starts_with("inf");
}

// Whether the literal that is passed on the way is the one that is asked for. Empty where a number
// could be spelled in another way.
std::optional<bool> is_the_same(const Expr& given, const Expr& asked) {
  if (is_infinity(asked)) return is_written_number(given) ? std::optional(false) : std::nullopt;
  if (!is_literal(asked)) return std::nullopt;
  const bool may_be_equal = is_written_number(given) || given.kind == ExprKind::boolean;
  if (given.kind != asked.kind) {
    const bool is_open =
        may_be_equal && (is_written_number(asked) || asked.kind == ExprKind::boolean);
    return is_open ? std::nullopt : std::optional(false);
  }
  return given.kind == ExprKind::none || given.word == asked.word;
}

// Whether a condition on a parameter holds by what is passed on the way: `if with_hidden:`,
// `if z is None:`, `if mode == "mask":`. Empty where that does not tell.
std::optional<bool> holds_on_the_way(const Context& context, const Guard& guard) {
  const bool is_condition = guard.kind == GuardKind::condition || guard.kind == GuardKind::option ||
                            guard.kind == GuardKind::training;
  if (!is_condition || guard.expr == nullptr) return std::nullopt;
  const Expr& expr = *guard.expr;
  if (expr.kind == ExprKind::name) {
    const Expr* given = given_on_the_way(context, &expr);
    if (given == nullptr) return std::nullopt;
    if (given->kind == ExprKind::none) return false;
    return given->kind == ExprKind::boolean ? std::optional(given->word == "True") : std::nullopt;
  }
  const bool compares = expr.kind == ExprKind::comparison && expr.children.size() == 2 &&
                        is_one_of(expr.word, {"==", "!=", "is", "is not"});
  const Expr* given = compares ? given_on_the_way(context, expr.children[0]) : nullptr;
  if (given == nullptr) return std::nullopt;
  const bool asks_none = expr.children[1]->kind == ExprKind::none;
  // `scaler = None; if args.amp: scaler = GradScaler()`: there are steps for either.
  const bool is_open = given->kind != ExprKind::none && chooses_backward(context, guard);
  if (asks_none && is_open) return std::nullopt;
  if (asks_none && may_be_none(*given)) return expr.word == "is" || expr.word == "==";
  if (!is_literal(*given)) return std::nullopt;
  const std::optional<bool> same = is_the_same(*given, *expr.children[1]);
  if (!same) return std::nullopt;
  return *same == (expr.word == "==" || expr.word == "is");
}

// `if loose:` for a parameter that the caller gives as self.loose: the same in each pass.
bool is_setting_on_the_way(const Context& context, const Guard& guard) {
  if (guard.kind != GuardKind::condition || guard.expr == nullptr) return false;
  const Expr* given = given_on_the_way(context, guard.expr);
  if (given == nullptr || given->kind != ExprKind::attribute) return false;
  const Expr* root = given;
  while (root->kind == ExprKind::attribute && !root->children.empty()) root = root->children[0];
  return !given->type->is(TypeKind::tensor) &&
         is_one_of(root->word, {"self", "args", "opt", "opts", "config", "cfg", "hparams"});
}

// Whether no guard closes the way, with all options at their defaults.
bool runs_with(const SourceFacts& facts, const Context& whole, bool (*is_closed)(const Guard&)) {
  if (!is_open_on_the_way(whole)) return false;
  Context context = whole;
  for (Guard& guard : context.guards) {
    if (is_setting_on_the_way(whole, guard)) guard.kind = GuardKind::option;
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
      return is_reached_when_launched(facts, context);
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
  if (is_test(*call.file)) return false;
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
