#include "rooftile/analysis/source/time_loop.h"

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

// x of x, x[i] and x.data: what an assignment to them changes.
std::string_view changed_name(const Expr& target) {
  const Expr* at = &target;
  while (at->kind == ExprKind::subscript) at = at->children()[0];
  return last_name(at);
}

// it.index_copy_(…), too: methods of tensors that end in one underscore write in place.
bool changes_receiver(const Call& call) {
  const bool is_in_place = call.method.ends_with("_") && !call.method.ends_with("__");
  return is_in_place || is_one_of(call.method, {"append", "insert", "extend"});
}

void add_names(const Expr& target, std::vector<std::string_view>& names) {
  visit(&target, [&](const Expr& part) {
    if (part.kind == ExprKind::name) names.push_back(part.word());
    return true;
  });
}

}  // namespace

TimeLoop::TimeLoop(const Statement& loop) : loop_(loop) {
  add_names(*loop.target, steps_);
  collect();
  find_known();
}

void TimeLoop::collect_target(const Expr& target, const Expr* value) {
  if (target.kind == ExprKind::tuple || target.kind == ExprKind::list) {
    for (const Expr* part : target.children()) collect_target(*part, value);
    return;
  }
  const bool in_place = target.kind == ExprKind::subscript;
  const std::string_view name = changed_name(target);
  if (!name.empty()) assigned_[name].push_back(in_place ? nullptr : value);
}

void TimeLoop::collect() {
  for_statements(loop_.body, [&](const Statement& statement) {
    if (statement.kind == StatementKind::assignment) {
      collect_target(*statement.target, statement.word == "=" ? statement.value : nullptr);
    }
    if (statement.kind == StatementKind::for_) collect_target(*statement.target, statement.value);
  });
  for (const Call* call : calls_inside(loop_)) {
    const std::string_view name = last_name(call->receiver);
    if (changes_receiver(*call) && !name.empty()) assigned_[name].push_back(nullptr);
  }
}

void TimeLoop::find_known() {
  varying_ = steps_;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [name, values] : assigned_) {
      if (known_.contains(name)) continue;
      const bool all = std::all_of(values.begin(), values.end(), [&](const Expr* value) {
        return value != nullptr && is_known_before(value);
      });
      if (!all) continue;
      known_.insert(name);
      changed = true;
      const bool any = std::any_of(values.begin(), values.end(),
                                   [&](const Expr* value) { return varies(value); });
      if (any) varying_.push_back(name);
    }
  }
}

bool TimeLoop::is_known_before(const Expr* expr) const {
  bool known = true;
  visit(expr, [&](const Expr& part) {
    const std::string_view name = last_name(&part);
    const bool is_step = std::find(steps_.begin(), steps_.end(), name) != steps_.end();
    if (!is_step && assigned_.contains(name)) known = known && known_.contains(name);
    return known;
  });
  return known;
}

bool TimeLoop::varies(const Expr* expr) const {
  return std::any_of(varying_.begin(), varying_.end(),
                     [&](std::string_view name) { return uses_variable(expr, name); });
}

std::vector<const Expr*> TimeLoop::assigned_to(std::string_view variable) const {
  const auto found = assigned_.find(variable);
  return found == assigned_.end() ? std::vector<const Expr*>{} : found->second;
}

namespace {

// `range(self.num_layers)` goes through layers, `range(2)` through few things.
bool is_over_parts(const Statement& loop) {
  constexpr int kFewSteps = 4;
  const Call* range = loop.value->call();
  if (range == nullptr || range->method != "range" || range->arguments.empty()) return false;
  const Expr* stop = range->arguments[range->arguments.size() == 1 ? 0 : 1].value;
  if (stop->kind == ExprKind::integer && stop->word().size() == 1) {
    return stop->word()[0] - '0' <= kFewSteps;
  }
  return contains_any(loop.file->slice(stop->range), {"layer", "block", "head", "stack", "level"});
}

}  // namespace

std::vector<const Statement*> time_loops(const File& file) {
  std::vector<const Statement*> loops;
  for (const Loop* loop : file.loops) {
    const FunctionDef* function = loop->function;
    const bool is_in_module =
        function != nullptr && function->class_def != nullptr && function->class_def->is_module;
    const bool is_over_batches = loop->role != LoopRole::other || loop->loader != nullptr;
    if (loop->statement->kind != StatementKind::for_ || !is_in_module || is_over_batches) continue;
    if (generates(*function) || is_over_parts(*loop->statement)) continue;
    loops.push_back(loop->statement);
  }
  return loops;
}

bool feeds_itself(const Loop& loop) {
  const auto calls = calls_inside(*loop.statement);
  return std::ranges::any_of(loop.statement->body, [&](const Statement* statement) {
    const Expr* target = statement->target;
    const bool extends = statement->kind == StatementKind::assignment &&
                         target->kind == ExprKind::name &&
                         uses_variable(statement->value, target->word());
    return extends && std::ranges::any_of(calls, [&](const Call* call) {
             return call->name == "torch.nn.Module.__call__" && !call->arguments.empty() &&
                    uses_variable(call->arguments[0].value, target->word());
           });
  });
}

}  // namespace rooftile::source
