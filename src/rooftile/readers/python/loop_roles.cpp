// Which loops are training steps, evaluation steps and epochs: from what they call, also through
// functions of the given files.
#include <algorithm>
#include <iterator>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/python/derive.h"
#include "rooftile/readers/python/evaluation_words.h"
#include "rooftile/readers/python/loop_events.h"
#include "rooftile/readers/python/passed_functions.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile::source {
namespace {

// What is learnt goes up one call a round; most are done after three.
constexpr int kMaxRounds = 32;
// Files with more are generated; their loops are not compared with each other.
constexpr std::size_t kMaxLoops = 2'000;

// A loop in a module over its layers is part of a forward, whoever calls it.
bool is_forward_of_module(const FunctionDef* function) {
  return function != nullptr && function->class_def != nullptr && function->class_def->is_module &&
         !function->class_def->is_lightning_module;
}

const Expr* loader_in(const Expr* iterable) {
  return find_inside(iterable, [](const Expr& expr) { return expr.type->is(TypeKind::loader); });
}

class RoleFinder {
 public:
  explicit RoleFinder(SourceFacts& facts) : facts_(facts), passed_(facts) {}

  void run() {
    std::vector<std::vector<const Call*>> telling;
    for (const auto& file : facts_.files) telling.push_back(telling_calls(*file));
    for (int round = 0; round < kMaxRounds && changed_; ++round) {
      changed_ = false;
      for (std::size_t i = 0; i < telling.size(); ++i) visit(*facts_.files[i], telling[i]);
    }
    for (const Call* call : facts_.calls({"ignite.engine.Engine", "ignite.engine.engine.Engine"})) {
      mark_step_function(*call);
    }
    mark_open_steps();
  }

 private:
  Events known_events(const FunctionDef* function) const {
    const auto known = functions_.find(function);
    return known == functions_.end() ? Events{} : known->second;
  }

  Events events_of(const Call& call) const {
    Events passed;
    for (const FunctionDef* function : passed_.run_by(call)) passed.add(known_events(function));
    if (passed_.calls_parameter(call) && passed != Events{}) return passed;
    Events events = own_events(call);
    events.add(passed);
    return events;
  }

  // Of the function that is called, or of that method of each class that the object may be.
  Events events_of_targets(const Call& call) const {
    Events events = known_events(call.target);
    const auto* choices = call.receiver == nullptr ? nullptr : call.receiver->type->choices;
    if (choices == nullptr) return events;
    for (const ClassDef* choice : *choices) {
      for (const ClassDef* def : lineage(facts_.store(), choice)) {
        const FunctionDef* method = def->method(call.method);
        if (method == nullptr) continue;
        events.add(known_events(method));
        break;
      }
    }
    return events;
  }

  Events own_events(const Call& call) const {
    Events events;
    if (call.target != nullptr) {
      const bool is_forward_call = is_forward(call);
      const Events known = events_of_targets(call);
      // A forward counts as such, unless the module trains in it, as meta-learners do, or runs
      // backward for a step that comes later.
      if (!is_forward_call || known.backward != nullptr || known.has_training) {
        events = known;
      }
      if (is_own_optimizer_step(call) && events.step == nullptr) events.step = &call;
      if (!is_forward_call || events.trains()) return events;
    }
    add_written_events(call, events);
    return events;
  }

  // Engine(update): ignite calls the function with each batch.
  void mark_step_function(const Call& engine) {
    const Argument* given = engine.argument("process_function", 0);
    const FunctionDef* function = given == nullptr ? nullptr : given->value->type->function;
    const auto known = functions_.find(function);
    if (function == nullptr || known == functions_.end()) return;
    FunctionDef& step = const_cast<FunctionDef&>(*function);
    const Events& events = known->second;
    step.is_training_step = events.backward != nullptr && events.step != nullptr;
    step.is_evaluation_step = events.backward == nullptr && events.forward;
  }

  // trainer.optimize(batch) of a module file: the script with the loop is not given.
  void mark_open_steps() const {
    for (const auto& [function, events] : functions_) {
      const bool steps = events.backward != nullptr && events.step != nullptr;
      const_cast<FunctionDef*>(function)->is_open_step =
          steps && !events.has_training && function->callers.empty();
    }
  }

  // What is learnt of functions changes the events of their calls only.
  std::vector<const Call*> telling_calls(const File& file) const {
    std::vector<const Call*> calls;
    std::ranges::copy_if(file.calls, std::back_inserter(calls), [&](const Call* call) {
      return call->target != nullptr || !passed_.run_by(*call).empty() ||
             own_events(*call) != Events{};
    });
    return calls;
  }

  void visit(const File& file, const std::vector<const Call*>& telling) {
    std::unordered_map<const Statement*, Events> loops;
    std::unordered_map<const FunctionDef*, Events> functions;
    for (const Call* call : telling) {
      const Events events = events_of(*call);
      if (events == Events{}) continue;
      const Statement* from =
          call->statement->loop != nullptr ? call->statement->parent : call->statement;
      if (const Statement* loop = loop_around(from)) {
        loops[loop].add(events);
      } else if (passed_.calls_parameter(*call)) {
        continue;  // the callers count it
      } else if (call->function != nullptr) {
        functions[call->function].add(events);
      }
    }
    // Inner loops stand behind outer ones in the list.
    for (auto it = file.loops.rbegin(); it != file.loops.rend(); ++it) {
      Loop& loop = const_cast<Loop&>(**it);
      const Events seen = classify(loop, loops[loop.statement]);
      if (const Statement* outer = loop_around(loop.statement->parent)) {
        loops[outer].add(seen);
      } else if (loop.function != nullptr) {
        functions[loop.function].add(seen);
      }
    }
    for (const auto& [function, events] : functions) {
      Events& known = functions_[function];
      if (known == events) continue;
      known = events;
      changed_ = true;
    }
  }

  Events classify(Loop& loop, const Events& inside) {
    const Expr* loader = loader_in(loop.statement->value);
    loop.loader = loader == nullptr ? nullptr : loader->type->made_by;
    loop.role = LoopRole::other;
    Events outside;
    const bool steps = inside.backward != nullptr && inside.step != nullptr;
    const bool is_dry = steps && runs_without_gradients(loop);
    if (steps && !is_dry && !holds_loader_loop(loop)) {
      loop.role = LoopRole::training_step;
      loop.backward = inside.backward;
      loop.optimizer_step = inside.step;
      outside.has_training = true;
      demote_inner(loop);
    } else if (is_outer_evaluation(loop, inside)) {
      loop.role = LoopRole::evaluation_step;
      outside.has_evaluation = true;
      outside.has_loader_evaluation = loader != nullptr;
      demote_inner(loop);
    } else if (!is_dry && (inside.has_training || inside.has_evaluation)) {
      loop.role = LoopRole::epoch;
      outside = inside;
    } else if (is_dry || (inside.forward && inside.backward == nullptr && !repeats_sizes(loop) &&
                          evaluates(loop, inside, loader != nullptr))) {
      loop.role = LoopRole::evaluation_step;
      outside.has_evaluation = true;
      outside.has_loader_evaluation = loader != nullptr;
    } else {
      outside = inside;
    }
    return outside;
  }

  // `for _ in range(50): net(x)` measures the time.
  static bool repeats(const Loop& loop) {
    const Call* over = loop.statement->value->call();
    return over != nullptr && over->name == "range";
  }

  // `for scale in scales:` of a helper: one image in several sizes, for whoever calls.
  static bool repeats_sizes(const Loop& loop) {
    if (loop.function == nullptr || loop.function->callers.empty()) return false;
    const Expr* over = loop.statement->value;
    return over->kind == ExprKind::name && contains_any(lower(over->word()), {"scales", "flips"});
  }

  // An evaluation by the function that also trains, `compute_loss(scores, y, only_loss=True)`.
  static bool runs_without_gradients(const Loop& loop) {
    if (contains_any(loop.file->text, {"enable_grad", "set_grad_enabled"})) return false;
    return source::runs_without_gradients(*loop.statement);
  }

  // A generator of one element after the other, with an inner loop over the parts of each: both
  // call networks, neither reads a loader. Or slices of each batch of a loader.
  bool is_outer_evaluation(const Loop& loop, const Events& inside) const {
    const bool may_be = inside.has_evaluation && !inside.has_training &&
                        inside.backward == nullptr && loop.file->loops.size() <= kMaxLoops;
    const bool is_over_loader = loader_in(loop.statement->value) != nullptr;
    if (!may_be || (!inside.forward && !is_over_loader)) return false;
    bool has_inner = false, has_repeats = false, reads_loader = false;
    for (const Loop* inner : loop.file->loops) {
      if (inner == &loop || !is_within(*inner->statement, *loop.statement)) continue;
      if (inner->role == LoopRole::evaluation_step)
        (repeats(*inner) ? has_repeats : has_inner) = true;
      reads_loader = reads_loader || loader_in(inner->statement->value) != nullptr;
    }
    // `for i in range(n): model(x[[i]])` behind a forward of the whole batch; a function that goes
    // over the scales or slices of one.
    const bool is_elsewhere = !has_inner && !has_repeats && !inside.has_loader_evaluation;
    const bool has_parts = has_inner || (has_repeats && inside.forward) || is_elsewhere;
    if (is_over_loader) return has_parts && !reads_loader;
    // `for weights in (last, best): test(weights)` runs whole evaluations.
    return !reads_loader && !inside.has_loader_evaluation && evaluates(loop, inside, false);
  }

  // An outer loop that does a step of its own, around one that reads all of a loader.
  static bool holds_loader_loop(const Loop& loop) {
    if (loop.file->loops.size() > kMaxLoops) return false;
    return std::ranges::any_of(loop.file->loops, [&](const Loop* inner) {
      // `while i < len(loader)` takes a few batches out of it.
      return inner != &loop && inner->role == LoopRole::training_step &&
             inner->statement->kind == StatementKind::for_ &&
             is_within(*inner->statement, *loop.statement) &&
             loader_in(inner->statement->value) != nullptr;
    });
  }

  // `evaluate`'s loop over a parameter for which all callers seen pass `data.test_batches`.
  static bool is_given_evaluation_data(const Expr& read) {
    const FunctionDef* function = read.statement->function;
    if (read.binding() != nullptr || function == nullptr || function->callers.empty()) return false;
    return std::ranges::all_of(function->callers, [&](const Call* caller) {
      const Argument* given = passed_argument(*caller, *function, read.word());
      return given != nullptr && is_evaluation_name(lower(given->value->word()));
    });
  }

  // `batches(val_data)`, an own generator that is told what to read.
  static bool reads_evaluation_data(const Loop& loop) {
    const Expr* read = loop.statement->value;
    if (read->kind == ExprKind::name) {
      return is_evaluation_name(lower(read->word())) || is_given_evaluation_data(*read);
    }
    const Call* call = read->call();
    return call != nullptr && std::ranges::any_of(call->arguments, [](const Argument& argument) {
             return is_evaluation_name(lower(argument.value->word()));
           });
  }

  // `if step % 500 == 0: for images, labels in test_loader: …`
  static bool evaluates_other_data(const Loop& inner, const Loop& outer) {
    if (inner.role != LoopRole::evaluation_step) return false;
    if (reads_evaluation_data(inner) && !reads_evaluation_data(outer)) return true;
    const Expr* loader = loader_in(inner.statement->value);
    const Expr* trained = loader_in(outer.statement->value);
    return loader != nullptr && trained != nullptr && loader->word() != trained->word() &&
           is_evaluation_name(lower(loader->word()));
  }

  // Several updates of one network within a step are part of that step.
  static void demote_inner(const Loop& loop) {
    if (loop.file->loops.size() > kMaxLoops) return;
    for (const Loop* inner : loop.file->loops) {
      const bool is_inside =
          inner != &loop && inner->is_step() && is_within(*inner->statement, *loop.statement);
      if (is_inside && !evaluates_other_data(*inner, loop)) {
        const_cast<Loop*>(inner)->role = LoopRole::other;
      }
    }
  }

  // predict_poses() that each training step calls: a part of its forward.
  bool is_part_of_step(const Loop& loop) const {
    if (!contains_any(loop.function->name, {"predict", "infer"})) return false;
    return std::ranges::any_of(loop.function->callers, [&](const Call* caller) {
      return !source::runs_without_gradients(*caller->statement) &&
             leads_from_step(facts_, *caller->statement, is_condition_in_step);
    });
  }

  // `model.eval()` further up at the top of a script.
  static bool is_switched_before(const Loop& loop) {
    return std::ranges::any_of(loop.file->calls, [&](const Call* call) {
      return call->function == nullptr && call->open_paren < loop.statement->range.begin &&
             switches_to_evaluation(*call);
    });
  }

  bool evaluates(const Loop& loop, const Events& inside, bool has_loader) const {
    if (has_loader) return true;
    if (loop.function != nullptr) {
      if (is_evaluation_name(lower(loop.function->name))) return !is_part_of_step(loop);
      for (const Call* call : loop.function->calls) {
        if (switches_to_evaluation(*call)) return true;
      }
    }
    if (loop.function == nullptr && is_switched_before(loop)) return true;
    if (is_forward_of_module(loop.function)) return false;
    if (inside.eval_mode || reads_evaluation_data(loop)) return true;
    return source::runs_without_gradients(*loop.statement);
  }

  SourceFacts& facts_;
  std::unordered_map<const FunctionDef*, Events> functions_;
  PassedFunctions passed_;
  bool changed_ = true;
};

}  // namespace

void find_loop_roles(SourceFacts& facts) { RoleFinder(facts).run(); }

}  // namespace rooftile::source
