#include "rooftile/analysis/source/hot_path.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

constexpr std::int64_t kRareInterval = 10;

bool is_rare(const Value& interval) {
  return interval.kind != ValueKind::integer || interval.integer >= kRareInterval;
}

// `if bad: continue` or `if not ok: continue` above: nearly all passes go on.
bool is_early_exit(const Guard& guard) {
  if (guard.statement == nullptr || !guard.statement->otherwise.empty()) return false;
  const Expr* outer = guard.expr == nullptr ? nullptr : guard.expr->parent;
  const bool is_turned =
      outer != nullptr && outer->kind == ExprKind::logical && outer->word == "not";
  return guard.negated || is_turned;
}

std::string_view guard_text(const Guard& guard) {
  if (guard.expr == nullptr || guard.expr->statement == nullptr) return {};
  return guard.expr->statement->file->slice(guard.expr->range);
}

// Whether there is a GPU, or several, is settled once: by how the program is started.
bool is_about_launch(const Guard& guard) {
  return contains_any(lower(guard_text(guard)), {"cuda", "gpu", "distributed", "world_size", "ddp",
                                                 "rank", "'cpu'", "\"cpu\""});
}

// `if step > last: save(); sys.exit()`: what stands there runs once.
bool ends_the_loop(const Guard& guard) {
  const Statement* branch = guard.statement;
  if (branch == nullptr || branch->kind != StatementKind::if_ || guard.negated) return false;
  if (branch->body.empty()) return false;
  const Statement& last = *branch->body.back();
  if (last.kind == StatementKind::break_ || last.kind == StatementKind::return_ ||
      last.kind == StatementKind::raise_)
    return true;
  const Call* call = last.value == nullptr ? nullptr : last.value->call;
  return call != nullptr && is_one_of(call->method, {"exit", "_exit", "quit"});
}

// `if step > warmup`, `if len(memory) > batch_size`: true from some step on.
bool is_from_some_step_on(const Guard& guard) {
  if (ends_the_loop(guard)) return false;
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children.size() == 2 && expr->word.starts_with(">");
  if (!compares) return false;
  const Expr* left = expr->children[0];
  if (left->call != nullptr) return left->call->name == "len";
  return contains_any(last_name(left), {"step", "iter", "epoch"});
}

bool assigns(const Statement& branch, std::string_view target) {
  bool found = false;
  for_statements(branch.body, [&](const Statement& statement) {
    const bool is_it = statement.kind == StatementKind::assignment && statement.target != nullptr &&
                       statement.file->slice(statement.target->range) == target;
    found = found || is_it;
  });
  return found;
}

// `if key not in cache`, `if self.graph is None: self.graph = …`: true the first time.
bool is_first_time(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children.size() == 2 && guard.statement != nullptr;
  if (!compares) return false;
  if (expr->word == "not in") return !guard.negated;
  const bool asks_none = expr->word == "is" && expr->children[1]->kind == ExprKind::none;
  return asks_none && !guard.negated && guard.statement->kind == StatementKind::if_ &&
         expr->children[0]->kind == ExprKind::attribute &&
         assigns(*guard.statement, guard.statement->file->slice(expr->children[0]->range));
}

// `x.cuda() if x.numel() else None`, `if x.dim() > 0`: about the odd empty tensor.
bool is_about_emptiness(const Guard& guard) {
  const Expr* expr = guard.expr;
  const bool compares = expr != nullptr && expr->kind == ExprKind::comparison &&
                        expr->children.size() == 2 && expr->children[1]->word == "0" &&
                        is_one_of(expr->word, {">", "!="}) && !guard.negated;
  const Call* call = expr == nullptr ? nullptr : compares ? expr->children[0]->call : expr->call;
  if (call == nullptr) return false;
  return is_one_of(call->method, {"numel", "nelement"}) || (compares && call->method == "dim");
}

bool is_shut(const Guard& guard) {
  if (is_first_time(guard)) return true;
  if (is_about_emptiness(guard)) return false;
  switch (guard.kind) {
    case GuardKind::exception:
      return true;
    case GuardKind::condition:
      return !is_early_exit(guard) && !is_about_launch(guard) && !is_from_some_step_on(guard);
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

bool is_module_method(const FunctionDef* function) {
  return function != nullptr && function->class_def != nullptr &&
         (function->class_def->is_module || function->class_def->is_autograd_function);
}

// `__all__ = ["Net", …]` names without making anything.
ByteRange exported_names(const File& file) {
  for (const Statement* statement : file.body) {
    const bool is_list = statement->kind == StatementKind::assignment &&
                         statement->target != nullptr && statement->target->word == "__all__";
    if (is_list) return statement->range;
  }
  return {};
}

// Whether the text uses the name outside of the range: no comment, and no word of a longer text.
bool uses_class(const File& file, std::string_view name, ByteRange own) {
  const std::string_view text = file.text;
  const ByteRange exported = exported_names(file);
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    if (at >= own.begin && at < own.end) continue;
    if (at >= exported.begin && at < exported.end) continue;
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const std::string_view before = text.substr(line, at - line);
    if (before.find('#') != std::string_view::npos) continue;
    const auto quotes = std::ranges::count_if(before, [](char c) { return c == '"' || c == '\''; });
    const bool begins_text = !before.empty() && (before.back() == '"' || before.back() == '\'');
    if (quotes % 2 == 0 || begins_text) return true;
  }
  return false;
}

bool is_made_elsewhere(const SourceFacts& facts, const ClassDef& def) {
  const auto calls = facts.calls(def.full_name);
  return std::ranges::any_of(calls, [&](const Call* call) { return call->file != def.file; });
}

// A class that no given file makes or names, where others take what stands beside it: a leftover.
bool is_left_over(const SourceFacts& facts, const ClassDef& def) {
  if (!facts.calls(def.full_name).empty()) return false;
  const bool has_used_neighbour =
      std::ranges::any_of(def.file->classes, [&](const ClassDef* other) {
        return other != &def && other->is_module && is_made_elsewhere(facts, *other);
      });
  const bool has_used_function =
      std::ranges::any_of(def.file->functions, [&](const FunctionDef* other) {
        return other->class_def == nullptr &&
               std::ranges::any_of(other->callers,
                                   [&](const Call* call) { return call->file != def.file; });
      });
  if ((!has_used_neighbour && !has_used_function) ||
      uses_class(*def.file, def.name, def.statement->range))
    return false;
  return std::ranges::none_of(facts.files, [&](const auto& file) {
    return std::ranges::find(file->imported, def.file) != file->imported.end() &&
           uses_class(*file, def.name, {});
  });
}

bool is_forward(const FunctionDef* function) {
  return is_module_method(function) && function->name == "forward";
}

// Through the forward of a module, from a method of a module that nothing seen calls. Without
// gradients it is no training: post-processing, generation.
bool is_unseen_forward(const SourceFacts& facts, const Context& context,
                       const FunctionDef* function) {
  const bool is_open = context.role == LoopRole::other && context.step_loop == nullptr;
  if (!is_open || context.gradients_off()) return false;
  const FunctionDef* outer = context.calls.empty() ? function : context.calls.front()->function;
  if (!is_module_method(outer)) return false;
  const bool passes_forward =
      is_forward(function) ||
      std::any_of(context.calls.begin(), context.calls.end(),
                  [](const Call* call) { return is_forward(call->function); });
  return passes_forward && !is_left_over(facts, *outer->class_def);
}

enum class Where { step_loop, forward_too, evaluation, evaluation_too };

bool matches(const SourceFacts& facts, const Context& context, const FunctionDef* function,
             Where where) {
  const bool trains = context.role == LoopRole::training_step;
  const bool evaluates = context.role == LoopRole::evaluation_step;
  switch (where) {
    case Where::step_loop:
      return trains;
    case Where::forward_too:
      return trains || (is_unseen_forward(facts, context, function) &&
                        (function == nullptr || !generates(*function)));
    case Where::evaluation:
      return evaluates;
    case Where::evaluation_too:
      return trains || evaluates || is_unseen_forward(facts, context, function);
  }
  return false;
}

// What keeps the statement from running on each pass, where it is one condition alone.
const Guard* only_condition(const Context& context) {
  const Guard* only = nullptr;
  for (const Guard& guard : context.guards) {
    if (!guard.in_loop || !is_shut(guard)) continue;
    if (only != nullptr || guard.kind != GuardKind::condition) return nullptr;
    only = &guard;
  }
  return only;
}

// `if teacher: decode(x) else: decode(y)`: one way or the other leads there on each pass.
bool runs_either_way(const SourceFacts& facts, const Context& context,
                     const std::vector<Context>& ways) {
  const Guard* guard = only_condition(context);
  if (guard == nullptr || guard->statement == nullptr || context.step_loop == nullptr) return false;
  return is_reached_when_launched(facts, context) &&
         std::ranges::any_of(ways, [&](const Context& other) {
           const Guard* opposite =
               other.step_loop == context.step_loop && other.role == context.role
                   ? only_condition(other)
                   : nullptr;
           return opposite != nullptr && opposite->expr == guard->expr &&
                  opposite->negated != guard->negated;
         });
}

template <class Node>
bool any_way(const SourceFacts& facts, const Node& node, const File& file,
             const FunctionDef* function, Where where) {
  if (!trains_on_gpu(facts, file)) return false;
  const auto contexts = facts.contexts(node);
  return std::any_of(contexts.begin(), contexts.end(), [&](const Context& context) {
    return matches(facts, context, function, where) &&
           (runs_on_each_pass(facts, context) || runs_either_way(facts, context, contexts));
  });
}

}  // namespace

bool runs_on_each_pass(const SourceFacts& facts, const Context& context) {
  const bool has_loop = context.step_loop != nullptr;
  const bool is_skipped = std::any_of(
      context.guards.begin(), context.guards.end(),
      [&](const Guard& guard) { return (guard.in_loop || !has_loop) && is_shut(guard); });
  return !is_skipped && is_reached_when_launched(facts, context);
}

bool is_reached_when_launched(const SourceFacts& facts, Context context) {
  std::erase_if(context.guards, [](const Guard& guard) {
    const bool is_choice = guard.kind == GuardKind::condition || guard.kind == GuardKind::option;
    return is_choice && is_about_launch(guard);
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

bool is_hot(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::forward_too);
}

bool is_hot_or_evaluated(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, *call.file, call.function, Where::evaluation_too);
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
