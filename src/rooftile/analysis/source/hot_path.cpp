#include "rooftile/analysis/source/hot_path.h"

#include <algorithm>
#include <string>

#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"

namespace rooftile::source {
namespace {

bool is_module_method(const FunctionDef* function) {
  return function != nullptr && function->class_def != nullptr &&
         (function->class_def->is_module || function->class_def->is_autograd_function);
}

// PostProcess, BoxPostProcessor: what evaluation makes of the outputs.
bool is_post_processing(const ClassDef& def) {
  const std::string name = lower(def.name);
  return contains_any(name, {"postprocess", "post_process"});
}

// Through the forward of a module, from a method of a module that nothing seen calls. Without
// gradients it is no training: post-processing, generation.
bool is_unseen_forward(const Way& way) {
  if (!way.is_open() || !way.passes_forward || (way.gradients_off && way.forward_is_off)) {
    return false;
  }
  return is_module_method(way.start) && !is_post_processing(*way.start->class_def);
}

enum class Where { step_loop, forward_too, evaluation, evaluation_too };

bool matches(const SourceFacts& facts, const Way& way, const FunctionDef* function, Where where) {
  const bool is_training = where == Where::step_loop || where == Where::forward_too;
  if (is_training && way.is_for_inference) return false;
  switch (where) {
    case Where::step_loop:
      return way.trains();
    case Where::forward_too:
      // The step of an own optimizer may have no caller that is seen.
      return way.trains() || (is_unseen_forward(way) && !generates(*function)) ||
             (way.is_open() && is_training_optimizer_step(facts, way.start));
    case Where::evaluation:
      return way.evaluates();
    case Where::evaluation_too:
      return way.trains() || way.evaluates() || is_unseen_forward(way);
  }
  return false;
}

// `if teacher: decode(x) else: decode(y)`: one way or the other leads there on each pass.
bool runs_either_way(const Way& way, const Ways& ways) {
  return way.step_loop != nullptr && std::ranges::any_of(ways, [&](const Way& other) {
           return other.step_loop == way.step_loop && other.condition == way.condition &&
                  other.negated != way.negated;
         });
}

template <class Node>
bool is_there(const SourceFacts& facts, const Node& node, Where where) {
  if (!trains_on_gpu(facts, *node.file)) return false;
  const Ways& ways = ways_to(facts, node);
  return std::ranges::any_of(ways, [&](const Way& way) {
    if (way.is_off_when_launched) return false;
    const bool runs = where == Where::evaluation_too
                          ? !way.is_shut_for_good
                          : way.shut == Shut::no || runs_either_way(way, ways);
    return runs && matches(facts, way, node.function, where);
  });
}

}  // namespace

bool is_reached_when_launched(const SourceFacts& facts, const Call& call) {
  return any_way(facts, call, [](const Way& way) { return !way.is_off_when_launched; });
}

bool is_reached_when_launched(const SourceFacts& facts, const Statement& statement) {
  return any_way(facts, statement, [](const Way& way) { return !way.is_off_when_launched; });
}

std::vector<const Call*> launched_calls(const SourceFacts& facts,
                                        std::initializer_list<std::string_view> full_names) {
  std::vector<const Call*> calls = facts.calls(full_names);
  std::erase_if(calls, [&](const Call* call) {
    const auto programs = training_programs_of(facts, *call->file);
    const bool runs = std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
      return runs_in(facts, *program, *call->statement);
    });
    return !runs || !is_reached_when_launched(facts, *call);
  });
  return calls;
}

bool is_hot(const SourceFacts& facts, const Statement& statement) {
  return is_there(facts, statement, Where::forward_too);
}

std::vector<HalfWay> half_ways(const SourceFacts& facts, const Statement& statement) {
  std::vector<HalfWay> ways;
  for (const Way& way : ways_to(facts, statement)) {
    const bool is_half = way.branch != nullptr && way.branch->kind == StatementKind::if_ &&
                         !way.is_off_when_launched &&
                         matches(facts, way, statement.function, Where::step_loop);
    if (is_half) ways.push_back({way.condition, way.negated, way.step_loop});
  }
  return ways;
}

bool is_hot(const SourceFacts& facts, const Call& call) {
  return is_there(facts, call, Where::forward_too);
}

bool is_hot_or_evaluated(const SourceFacts& facts, const Call& call) {
  return is_there(facts, call, Where::evaluation_too);
}

bool is_evaluated_on_gpu(const SourceFacts& facts, const Call& call) {
  if (call.file->is_test) return false;
  const auto programs = facts.programs_of(*call.file);
  const bool has_entry = std::ranges::any_of(
      programs, [](const Program* program) { return program->entry != nullptr; });
  return has_entry && any_way(facts, call, [](const Way& way) {
           return way.evaluates() && way.step_loop != nullptr && way.step_loop->on_gpu &&
                  way.shut == Shut::no && !way.is_off_when_launched;
         });
}

bool is_in_step_loop(const SourceFacts& facts, const Call& call) {
  return is_there(facts, call, Where::step_loop);
}

bool is_in_evaluation_loop(const SourceFacts& facts, const Call& call) {
  return is_there(facts, call, Where::evaluation);
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
