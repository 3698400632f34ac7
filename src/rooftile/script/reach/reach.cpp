#include "rooftile/script/reach/reach.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/script/reach/conditions.h"
#include "rooftile/script/reach/guards.h"
#include "rooftile/script/reach/passes.h"
#include "rooftile/script/reach/path.h"
#include "rooftile/script/reach/programs.h"
#include "rooftile/script/reach/unused.h"
#include "rooftile/script/reach/ways_up.h"
#include "rooftile/workload/source_store.h"
#include "rooftile/workload/source_walks.h"

namespace rooftile::source {
namespace {

bool is_no_worse(const Way& a, const Way& b) {
  const bool is_same_condition = a.condition == b.condition && a.negated == b.negated;
  return (a.shut < b.shut || (a.shut == b.shut && is_same_condition)) &&
         a.is_shut_for_good <= b.is_shut_for_good && a.is_conditional <= b.is_conditional &&
         a.is_for_inference <= b.is_for_inference && a.is_off_by_default <= b.is_off_by_default &&
         a.is_off_when_launched <= b.is_off_when_launched;
}

// What two ways must have in common for one to stand for both.
Way kind_of(const Way& way) {
  Way kind;
  kind.step_loop = way.step_loop;
  kind.role = way.role;
  kind.start = way.start;
  kind.autocast = way.autocast;
  kind.is_autocast_off = way.is_autocast_off;
  kind.gradients_off = way.gradients_off;
  kind.passes_forward = way.passes_forward;
  kind.forward_is_off = way.forward_is_off;
  kind.is_in_inner_loop = way.is_in_inner_loop;
  return kind;
}

// Whether the set rose.
bool add(const Way& way, Ways& ways) {
  const Way kind = kind_of(way);
  for (const Way& other : ways) {
    if (is_no_worse(other, way) && kind_of(other) == kind) return false;
  }
  std::erase_if(
      ways, [&](const Way& other) { return is_no_worse(way, other) && kind_of(other) == kind; });
  ways.push_back(way);
  return true;
}

bool is_module_method(const FunctionDef& function) {
  return function.class_def != nullptr &&
         (function.class_def->is_module || function.class_def->is_autograd_function);
}

bool is_forward(const FunctionDef* function) {
  return function != nullptr && is_module_method(*function) && function->name == "forward";
}

bool returns_outside(const FunctionDef& function, const Statement& block) {
  return any_statement(function.body, [&](const Statement& statement) {
    return statement.kind == StatementKind::return_ && !is_within(statement, block);
  });
}

// `def forward(self, x): return self.sample(x)`: the function runs all of it.
bool stands_for_all(const Call& call) {
  const FunctionDef& forward = *call.function;
  const Statement* last = forward.body.empty() ? nullptr : forward.body.back();
  return last != nullptr && last->kind == StatementKind::return_ && last->value == call.expr &&
         std::ranges::all_of(forward.body, [&](const Statement* each) {
           return each == last || each->kind == StatementKind::expression;
         });
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
  if (programs.empty()) return false;
  return std::ranges::none_of(
      programs, [&](const Program* program) { return runs_in(facts, *program, *call.statement); });
}

// `def forward_eval(self, x): with torch.no_grad(): return self.forward(x)`
bool is_trial_of_own(const Call& call) {
  const FunctionDef* function = call.function;
  const FunctionDef* forward = call.target;
  if (function == nullptr || !is_forward(forward) || !is_module_method(*function) ||
      function == forward) {
    return false;
  }
  if (!contains_any(function->name, {"forward", "eval", "test", "infer", "predict", "valid"})) {
    return false;
  }
  const Expr& callee = *call.expr->children().front();
  const bool is_self =
      callee.word() == "self" || (call.receiver != nullptr && last_name(call.receiver) == "self");
  return is_self && !function->class_def->is_lightning_module;
}

// `def infer(self, x): self.eval(); return self.forward(x)`
bool switches_own_mode(const FunctionDef& function) {
  return std::ranges::any_of(function.calls, [](const Call* call) {
    return call->method == "eval" && call->receiver != nullptr && call->receiver->word() == "self";
  });
}

// A forward that nothing seen calls but its own class, without gradients: what trains calls it from
// outside.
bool is_also_called_from_outside(const FunctionDef& function) {
  return is_forward(&function) && !function.callers.empty() &&
         std::ranges::all_of(function.callers, [&](const Call* caller) {
           return is_trial_of_own(*caller) && (switches_own_mode(*caller->function) ||
                                               runs_without_gradients(*caller->statement));
         });
}

// The function that a call of a parameter runs, `run()` of `timed(run)`, where `by` hands it over;
// null where that is not seen.
const FunctionDef* handed_over(const Call& call, const Call& by) {
  if (call.receiver != nullptr) return nullptr;
  const Expr& callee = *call.expr->children().front();
  if (callee.kind != ExprKind::name || callee.binding() != nullptr) return nullptr;
  const Argument* given = passed_argument(by, *call.function, callee.word());
  return given == nullptr ? nullptr : given->value->type->function;
}

bool is_between_steps(std::string_view hook) {
  return is_one_of(hook, {"on_train_batch_start", "on_train_batch_end", "on_before_zero_grad",
                          "on_after_backward", "on_before_optimizer_step"});
}

bool is_module_object(const Expr& expr) {
  return expr.type->is(TypeKind::module) ||
         is_one_of(last_name(&expr), {"self", "model", "net", "network", "module"});
}

// `else` of `if self.training:`, `None if model.training else f(x)`, `if inference:`: not in a
// training step.
bool asks_for_inference(const Guard& guard) {
  if (guard.expr == nullptr) return false;
  const std::string_view name = last_name(guard.expr);
  if (guard.kind == GuardKind::training) {
    return guard.negated && name == "training" && !guard.expr->children().empty() &&
           is_module_object(*guard.expr->children()[0]);
  }
  return !guard.negated && is_one_of(name, {"inference", "is_inference", "infer", "inferring"});
}

// In the else of `if args.amp:` under `autocast(enabled=args.amp)`: off by the same flag.
bool switches_off(const Expr& autocast, const Guard& guard) {
  const Call* call = autocast.call();
  const Argument* enabled = call == nullptr ? nullptr : call->argument("enabled");
  if (enabled == nullptr || enabled->followed) return false;
  return guard.negated && guard.expr != nullptr && guard.statement != nullptr &&
         guard.statement->file == call->file &&
         call->file->slice(enabled->value->range) == call->file->slice(guard.expr->range);
}

void enter_step(LoopRole role, const Loop* loop, Way& way) {
  way.role = role;
  way.step_loop = loop;
  way.shut = Shut::no;
  way.condition = nullptr;
  way.branch = nullptr;
  way.negated = way.is_shut_for_good = way.is_conditional = way.is_in_inner_loop = false;
}

class Reach {
 public:
  // The ways from a function's callers down a path in it.
  Ways down(const SourceFacts& facts, const FunctionDef* function, const Path& path) {
    Ways ways;
    for (const Entrance& entrance : entrances(facts, function)) {
      for (const Way& way : entrance.ways) {
        if (const auto there = follow(facts, way, path, entrance.by, function)) add(*there, ways);
      }
    }
    return ways;
  }

 private:
  struct Entrance {
    const Call* by = nullptr;  // null: nothing seen calls it
    Ways ways;
  };
  struct State {
    std::vector<Entrance> entrances;
    std::vector<const FunctionDef*> callees;  // of those that are worked out with it
    bool is_rooted = false;                   // some way begins there, or above
    bool is_told = false;                     // its callees have heard of ways that begin there
    bool is_waiting = true, is_done = false;
  };

  // Of the top of a file, where a program begins.
  static const std::vector<Entrance>& top() {
    static const std::vector<Entrance> entrances{{nullptr, {Way{}}}};
    return entrances;
  }

  const std::vector<Entrance>& entrances(const SourceFacts& facts, const FunctionDef* function) {
    if (function == nullptr) return top();
    if (!solved_.contains(function)) solve(facts, *function);
    return solved_.at(function).entrances;
  }

  // The functions above that are not worked out yet, the function itself first.
  std::vector<const FunctionDef*> functions_above(const FunctionDef& function) {
    std::vector<const FunctionDef*> found{&function};
    solved_[&function];
    for (std::size_t next = 0; next < found.size(); ++next) {
      const FunctionDef* one = found[next];
      for (const Call* caller : one->callers) {
        if (caller->function == nullptr) continue;
        const auto [place, is_new] = solved_.try_emplace(caller->function);
        if (is_new) found.push_back(caller->function);
        if (!place->second.is_done) place->second.callees.push_back(one);
      }
    }
    return found;
  }

  void solve(const SourceFacts& facts, const FunctionDef& wanted) {
    const std::vector<const FunctionDef*> functions = functions_above(wanted);
    std::vector<const FunctionDef*> work(functions);  // the outer ones at the back
    root(facts, functions);
    while (!work.empty()) {
      const FunctionDef* function = work.back();
      work.pop_back();
      State& mine = solved_.at(function);
      mine.is_waiting = false;
      if (!update(facts, *function)) continue;
      for (const FunctionDef* callee : mine.callees) {
        State& theirs = solved_.at(callee);
        if (!std::exchange(theirs.is_waiting, true)) work.push_back(callee);
      }
    }
    for (const FunctionDef* function : functions) {
      State& mine = solved_.at(function);
      mine.is_done = true;
      mine.callees.clear();
    }
  }

  // Ways begin in what nothing calls; of functions that only call each other in the outermost.
  void root(const SourceFacts& facts, const std::vector<const FunctionDef*>& functions) {
    for (const FunctionDef* function : functions) {
      if (!function->callers.empty()) continue;
      begin(facts, *function, !is_unused(facts, *function) && !is_overridden(facts, *function));
    }
    for (const FunctionDef* function : functions) {
      const bool is_called_at_top = std::ranges::any_of(function->callers, [&](const Call* caller) {
        return caller->function == nullptr || solved_.at(caller->function).is_done;
      });
      if (is_called_at_top) mark_rooted(*function);
    }
    for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
      if (!solved_.at(*function).is_rooted) begin(facts, **function, true);
    }
    for (const FunctionDef* function : functions) {
      const bool is_started = !function->callers.empty() && !starts_of(facts, *function).empty();
      if (is_started || is_also_called_from_outside(*function)) begin(facts, *function, true);
    }
  }

  void begin(const SourceFacts& facts, const FunctionDef& function, bool is_run) {
    if (is_run) {
      Way way;
      way.start = &function;
      Entrance& entrance = solved_.at(&function).entrances.emplace_back();
      add(entered(facts, way, nullptr, function), entrance.ways);
    }
    mark_rooted(function);
  }

  void mark_rooted(const FunctionDef& function) {
    std::vector<const FunctionDef*> open{&function};
    while (!open.empty()) {
      State& state = solved_.at(open.back());
      open.pop_back();
      if (std::exchange(state.is_rooted, true)) continue;
      open.insert(open.end(), state.callees.begin(), state.callees.end());
    }
  }

  // Whether a way came in.
  bool update(const SourceFacts& facts, const FunctionDef& function) {
    State& mine = solved_.at(&function);
    bool rose = !mine.entrances.empty() && !mine.is_told;
    mine.is_told = true;
    for (const Call* caller : function.callers) {
      for (const Way& way : ways_by(facts, *caller, function)) {
        rose = add(way, entrance_by(function, caller)) || rose;
      }
    }
    return rose;
  }

  Ways& entrance_by(const FunctionDef& function, const Call* caller) {
    auto& all = solved_.at(&function).entrances;
    const auto found = std::ranges::find(all, caller, &Entrance::by);
    return found != all.end() ? found->ways : all.emplace_back(Entrance{caller, {}}).ways;
  }

  // Those that a call brings to a function.
  Ways ways_by(const SourceFacts& facts, const Call& call, const FunctionDef& function) {
    Path path = path_to(facts, *call.statement);
    for (const Guard& guard : inline_guards(facts, call)) {
      if (guard.kind == GuardKind::training) path.emplace_back().guard = guard;
    }
    const auto& above = call.function == nullptr ? top() : solved_.at(call.function).entrances;
    const bool tries = is_trial(facts, call);
    Ways ways;
    for (const Entrance& entrance : above) {
      const FunctionDef* handed =
          entrance.by == nullptr ? nullptr : handed_over(call, *entrance.by);
      if (handed != nullptr && handed != &function) continue;
      for (const Way& way : entrance.ways) {
        auto there = follow(facts, way, path, entrance.by, call.function);
        if (!there) continue;
        if (tries && entrance.by == nullptr) there->start = &function;
        add(entered(facts, *there, &call, function), ways);
      }
    }
    return ways;
  }

  // At the first statement of a function. What a hook between steps calls by way of others is
  // mostly for a log, under a condition of its own.
  static Way entered(const SourceFacts& facts, Way way, const Call* by,
                     const FunctionDef& function) {
    const bool was_off = way.gradients_off;
    for (const Expr* decorator : function.decorators) {
      pass(facts, guard_of_manager(decorator, nullptr), nullptr, way);
    }
    const bool leaves_hook = by != nullptr && by->function != nullptr && way.is_between_steps > 1;
    if (leaves_hook) way = left_hook(way);
    if (way.is_between_steps > 0) ++way.is_between_steps;
    if (way.step_loop == nullptr) mark_step(function, way);
    if (is_forward(&function) && !way.passes_forward) {
      way.passes_forward = true;
      way.forward_is_off = way.gradients_off;
    } else if (by != nullptr && is_forward(by->function) && way.gradients_off && !was_off &&
               stands_for_all(*by)) {
      way.forward_is_off = true;
    }
    return way;
  }

  static Way left_hook(Way way) {
    way.role = LoopRole::other;
    way.is_between_steps = 0;
    return way;
  }

  static void mark_step(const FunctionDef& function, Way& way) {
    const ClassDef* def = function.class_def;
    if (def != nullptr && (def->is_lightning_module || def->is_lightning_callback)) {
      if (function.name == "training_step") enter_step(LoopRole::training_step, nullptr, way);
      if (is_between_steps(function.name)) {
        enter_step(LoopRole::training_step, nullptr, way);
        way.is_between_steps = 1;
      }
      if (function.name == "validation_step" || function.name == "test_step") {
        enter_step(LoopRole::evaluation_step, nullptr, way);
      }
    }
    if (function.is_training_step) enter_step(LoopRole::training_step, nullptr, way);
    if (function.is_evaluation_step) enter_step(LoopRole::evaluation_step, nullptr, way);
  }

  // Down a path of the function that `by` enters; nothing where what it passes keeps it from there.
  static std::optional<Way> follow(const SourceFacts& facts, Way way, const Path& path,
                                   const Call* by, const FunctionDef* function) {
    for (const PathStep& step : path) {
      if (step.loop == nullptr) {
        if (!pass(facts, step.guard, by, way)) return std::nullopt;
        const bool is_of_forward = step.guard.statement != nullptr && way.gradients_off &&
                                   step.guard.statement->kind == StatementKind::with_ &&
                                   is_forward(function);
        if (is_of_forward && !returns_outside(*function, *step.guard.statement)) {
          way.forward_is_off = true;
        }
      } else if (step.loop->is_step()) {
        enter_step(step.loop->role, step.loop, way);
      } else {
        way.is_in_inner_loop = way.step_loop != nullptr;
      }
    }
    return way;
  }

  // False where the guard lets nothing pass that comes by the call.
  static bool pass(const SourceFacts& facts, Guard guard, const Call* by, Way& way) {
    switch (guard.kind) {
      case GuardKind::no_grad:
      case GuardKind::inference_mode:
        way.gradients_off = true;
        return true;
      case GuardKind::enable_grad:
        way.gradients_off = *turns_gradients_off(guard);
        return true;
      case GuardKind::autocast:
        way.autocast = guard.expr;
        way.is_autocast_off = false;
        return true;
      case GuardKind::main:
      case GuardKind::no_sync:
      case GuardKind::with_other:
      case GuardKind::decorator:
        return true;
      default:
        return pass_condition(facts, guard, by, way);
    }
  }

  static bool pass_condition(const SourceFacts& facts, Guard guard, const Call* by, Way& way) {
    if (guard.kind == GuardKind::never && !guard.negated) return false;
    if (way.autocast != nullptr && switches_off(*way.autocast, guard)) way.is_autocast_off = true;
    way.is_for_inference = way.is_for_inference || asks_for_inference(guard);
    if (by != nullptr) {
      const auto holds = holds_when_called(facts, *by, guard);
      if (holds) return *holds != guard.negated;
      if (const auto left =
              guard.expr == nullptr ? std::nullopt : left_as_it_is(*by, *guard.expr)) {
        if (*left == guard.negated) shut_for_good(way);
        return true;
      }
      if (is_setting_of_caller(facts, *by, guard)) guard.kind = GuardKind::option;
    }
    shut_passes(facts, guard, way);
    if (is_shut_by_default(facts, guard, by)) shut_by_default(guard, way);
    return true;
  }

  // What keeps passes of a loop out.
  static void shut_passes(const SourceFacts& facts, const Guard& guard, Way& way) {
    const bool is_inside = way.step_loop != nullptr || way.role != LoopRole::other;
    if (is_inside && is_condition_in_step(guard)) way.is_conditional = true;
    if (!guards_backward(facts, way.step_loop, guard)) {
      if (is_shut(guard)) shut(guard, way);
      way.is_shut_for_good = way.is_shut_for_good || is_shut_for_good(guard);
    }
  }

  static void shut_by_default(const Guard& guard, Way& way) {
    way.is_off_by_default = true;
    const bool is_choice = guard.kind == GuardKind::condition || guard.kind == GuardKind::option;
    if (!is_choice || !is_about_launch(guard) || truth_on_gpu(guard.expr)) {
      way.is_off_when_launched = true;
    }
  }

  static void shut_for_good(Way& way) {
    way.shut = Shut::yes;
    way.condition = nullptr;
    way.branch = nullptr;
    way.negated = false;
    way.is_shut_for_good = true;
  }

  static void shut(const Guard& guard, Way& way) {
    const bool is_first = way.shut == Shut::no && guard.kind == GuardKind::condition;
    way.shut = is_first ? Shut::condition : Shut::yes;
    way.condition = is_first ? guard.expr : nullptr;
    way.branch = is_first ? guard.statement : nullptr;
    way.negated = is_first && guard.negated;
  }

  std::unordered_map<const FunctionDef*, State> solved_;
};

struct KnownReach {
  Reach reach;
  std::unordered_map<const void*, Ways> by_node;  // statements and calls
};

template <class Node>
const Ways& known_ways(const SourceFacts& facts, const Node& node) {
  auto& known = facts.store().kept<KnownReach>();
  const auto found = known.by_node.find(&node);
  if (found != known.by_node.end()) return found->second;
  Ways ways = known.reach.down(facts, node.function, path_to(facts, node));
  return known.by_node.emplace(&node, std::move(ways)).first->second;
}

}  // namespace

const Ways& ways_to(const SourceFacts& facts, const Statement& statement) {
  return known_ways(facts, statement);
}

const Ways& ways_to(const SourceFacts& facts, const Call& call) { return known_ways(facts, call); }

namespace {

// `config.use_experts` of an object that is made out of sight, where an option of that name is off
// by default.
bool is_off_as_option(const SourceFacts& facts, const Expr& flag) {
  const auto& options = facts.store().options;
  const auto found = options.find(flag.word());
  if (flag.kind != ExprKind::attribute || found == options.end() || found->second.several) {
    return false;
  }
  const Option& option = found->second;
  return option.value == nullptr ? option.action == "store_true"
                                 : facts.value(option.value).is_false();
}

// A switch that is off by default; a name that chooses one of several is none.
bool is_off_switch(const SourceFacts& facts, const Guard& guard) {
  const bool is_plain =
      guard.expr != nullptr && !guard.negated &&
      (guard.expr->kind == ExprKind::name || guard.expr->kind == ExprKind::attribute);
  if (!is_plain) return false;
  const Value value = facts.value(guard.expr);
  return value.is_false() || (value.unknown() && is_off_as_option(facts, *guard.expr));
}

// A class that calls make, each of them under a switch that is off by default.
bool is_made_by_switch(const SourceFacts& facts, const ClassDef& def) {
  const auto& makers = facts.calls(def.full_name);
  return !makers.empty() && std::ranges::all_of(makers, [&](const Call* maker) {
    return !leads_there(facts, *maker,
                        [&](const Guard& guard) { return is_off_switch(facts, guard); });
  });
}

bool stands_in_made_by_switch(const SourceFacts& facts, const Statement& statement) {
  for (const Statement* at = &statement; at != nullptr; at = at->parent) {
    if (at->class_def != nullptr && is_made_by_switch(facts, *at->class_def)) return true;
  }
  return false;
}

}  // namespace

bool is_reached(const SourceFacts& facts, const File& file, std::size_t line) {
  const Statement* statement = statement_in(file, line);
  return statement == nullptr ||
         (!stands_in_unused(facts, *statement) && !ways_to(facts, *statement).empty() &&
          !stands_in_made_by_switch(facts, *statement));
}

bool is_off_by_default(const SourceFacts& facts, const File& file, std::size_t line) {
  const Statement* statement = statement_in(file, line);
  // `if args.eval: test()` is another way to run the program.
  const auto is_off = [&](const Guard& guard) {
    return is_off_switch(facts, guard) && !leads_to_only_training(facts, guard) &&
           !contains_any(lower(last_name(guard.expr)),
                         {"eval", "test", "valid", "infer", "predict"});
  };
  return statement != nullptr && !leads_there(facts, *statement, is_off);
}

}  // namespace rooftile::source
