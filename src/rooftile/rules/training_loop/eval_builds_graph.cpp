#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "rooftile/analysis/source/evaluated_models.h"
#include "rooftile/analysis/source/gradient_switches.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/tutorials.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/path.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace training_loop_eval_builds_graph_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A loop that only evaluates a model on a GPU, without `torch.no_grad()`,
`torch.inference_mode()` or `set_grad_enabled(False)` in its function or in the callers seen.

## Why it costs time
Each layer keeps its input for the backward. The memory for it limits the batch size of the
evaluation, and the bookkeeping of the graph costs time on the host.

## How to fix
`@torch.no_grad()` over the function, or `with torch.no_grad():` around the loop.
`torch.inference_mode()` saves a little more where the results never enter training.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- Gradients are used in the loop: adversarial examples, saliency, test-time training.
- Lightning and the transformers trainer switch them off around their hooks.
- All parameters are frozen.
- Evaluations that no training runs in its epochs, or only every ten or more of them, and digits:
  information.

## Evidence
- PyTorch performance tuning guide, "Disable gradient calculation for validation or inference".
)md";

using namespace source;

// `attack = torchattacks.PGD(model); attack(x, y)`, of code that is not given.
bool attacks(const Call& call) {
  if (call.target != nullptr) return false;
  const Expr* callee = call.expr->children().front();
  const Expr* made = resolved(callee);
  const std::string_view maker = made->call() != nullptr ? made->call()->name : "";
  const std::string_view library = maker.substr(0, maker.find('.'));
  if (is_one_of(library, {"torchattacks", "foolbox", "advertorch", "autoattack", "art"}))
    return true;
  const std::string name = lower(last_name(callee));
  return contains_any(name, {"attack", "adversar", "perturb"}) && !contains(name, "loss");
}

// Gradients are wanted: attacks, saliency, test-time training.
bool uses_gradients(const Iteration& iteration) {
  return std::any_of(iteration.calls.begin(), iteration.calls.end(), [](const IteratedCall& one) {
    return attacks(*one.call) || one.call->name == "torch.autograd.grad" ||
           one.call->method == "backward" || one.call->method == "requires_grad_" ||
           one.call->method == "retain_grad" || one.call->name.starts_with("torch.func.") ||
           one.call->name == "torch.autograd.backward";
  });
}

// In a program that trains on a GPU, or in a script that evaluates there.
bool runs_on_gpu(const SourceFacts& facts, const Loop& loop) {
  if (trains_on_gpu(facts, *loop.file)) return true;
  if (!loop.on_gpu || loop.file->is_test) return false;
  const auto programs = facts.programs_of(*loop.file);
  return std::any_of(programs.begin(), programs.end(),
                     [](const Program* program) { return program->entry != nullptr; });
}

// Frameworks that run evaluation without gradients.
bool is_of_framework(const Expr& base) {
  const std::string_view name = base.full_name();
  return is_one_of(name.substr(0, name.find('.')),
                   {"pytorch_lightning", "lightning", "transformers", "fairseq", "detectron2",
                    "mmcv", "mmengine", "mmdet", "fastai", "composer", "catalyst", "espnet2",
                    "parlai", "ignite", "allennlp", "speechbrain"});
}

// A framework calls the function without gradients: a hook, or a method that nothing seen calls.
bool is_wrapped(const Loop& loop) {
  const FunctionDef* function = loop.function;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  if (def == nullptr) return false;
  if (def->is_lightning_module || def->is_hf_trainer) return true;
  for (const std::string_view hook : {"on_validation", "on_test_", "on_predict", "validation_step",
                                      "test_step", "predict_step"}) {
    if (function->name.starts_with(hook)) return true;
  }
  return function->callers.empty() &&
         std::ranges::any_of(def->bases, [](const Expr* base) { return is_of_framework(*base); });
}

bool names_evaluation(std::string_view name) {
  return contains_any(lower(name), {"eval", "val", "test", "infer", "predict", "sampl", "generat",
                                    "dev", "metric", "score", "decod", "translat", "extract",
                                    "embed", "feature", "activation", "accura", "demo", "encod"});
}

bool switches_to_eval(const Call* call) {
  return call->method == "eval" || (call->method == "train" && call->arguments.size() == 1 &&
                                    call->arguments.front().value->word() == "False");
}

// Something says that the loop evaluates: the name of its function, its data or file, or a model
// that is switched to evaluation in its function or in one that calls it.
bool is_marked(const Loop& loop) {
  const Statement& statement = *loop.statement;
  if (names_evaluation(loop.file->slice(statement.value->range))) return true;
  const std::size_t slash = loop.file->path.rfind('/');
  const std::string_view path = loop.file->path;
  if (names_evaluation(slash == std::string::npos ? path : path.substr(slash))) return true;
  if (loop.function == nullptr) return std::ranges::any_of(loop.file->calls, switches_to_eval);
  bool is_marked = false;
  const auto visit_function = [&](const FunctionDef& one) {
    is_marked = is_marked || names_evaluation(one.name) ||
                std::ranges::any_of(one.calls, switches_to_eval) ||
                std::ranges::any_of(one.callers, [](const Call* caller) {
                  return names_evaluation(caller->file->slice(caller->expr->range));
                });
    return !is_marked;
  };
  for_functions_around(*loop.function, kMaxCallDepth, visit_function,
                       [](const FunctionDef& one, const auto& add) {
                         for (const Call* call : one.callers) add(call->function);
                       });
  return is_marked;
}

// Behind a return or raise of its block, or of one around it.
bool is_never_reached(const Statement& loop) {
  for (const Statement* at = &loop; at != nullptr; at = at->parent) {
    for (const Statement* earlier : before(*at)) {
      if (earlier->kind == StatementKind::return_ || earlier->kind == StatementKind::raise_) {
        return true;
      }
    }
  }
  return false;
}

// `if model.training: … else: with no_grad(): …` in the loop: the model is in evaluation mode.
bool asks_for_training(const Guard& guard) {
  return guard.kind == GuardKind::training && !guard.negated && guard.expr != nullptr &&
         guard.expr->kind == ExprKind::attribute && guard.expr->word() == "training";
}

// Whether some way leads from the loop to a forward that keeps its graph.
bool records(const SourceFacts& facts, const Call& call, const Loop& loop) {
  return any_way(facts, call,
                 [&](const Way& way) {
                   return way.step_loop == &loop && !way.gradients_off && !way.is_off_by_default;
                 }) &&
         leads_there(facts, call, asks_for_training);
}

// `freeze(model)`, `set_requires_grad(model, False)`
bool freezes_argument(const Call& call, const Expr& model) {
  const bool is_switch = call.method.starts_with("freeze") ||
                         contains_any(call.method, {"requires_grad", "toggle_grad"});
  if (!is_switch || call.arguments.empty()) return false;
  const bool stays_on = std::ranges::any_of(
      call.arguments, [](const Argument& argument) { return argument.value->word() == "True"; });
  const std::string_view given = last_name(call.arguments.front().value);
  return !stays_on && !given.empty() && given == last_name(&model);
}

// `model.eval().requires_grad_(False)` as a statement of its own.
bool is_frozen_in_place(const Expr& model, const File& file) {
  if (!mentions(file, {"requires_grad", "requires_grad_", "freeze", "toggle_grad"})) return false;
  const auto is_toggled = [&](const Call* call) {
    const bool is_on = call->arguments.size() == 2 && call->arguments[1].value->word() == "True";
    return is_on && contains_any(call->method, {"requires_grad", "toggle_grad"});
  };
  if (std::ranges::any_of(file.calls, is_toggled)) return false;
  return std::any_of(file.calls.begin(), file.calls.end(), [&](const Call* call) {
    const bool switches_off = call->method == "requires_grad_" && !call->arguments.empty() &&
                              call->arguments.front().value->word() == "False";
    if (switches_off && is_same_object(call->receiver, &model)) return true;
    return freezes_argument(*call, model);
  });
}

// A call of a model whose weights want gradients, also model.forward(x); a loss has none.
bool is_model_call(const Call& call) {
  const bool is_forward = call.method == "forward" && call.receiver != nullptr;
  if (!is_forward && call.name != "torch.nn.Module.__call__") return false;
  const Expr& model = is_forward ? *call.receiver : *call.expr->children().front();
  const bool is_trainable = model.type->is(TypeKind::module) && !model.type->frozen &&
                            !has_no_weights(*model.type) && !freezes_itself(*model.type);
  return is_trainable && !is_frozen_in_place(model, *call.file);
}

// `model.predict(x)`, a method of an own module that runs its layers: the call in the loop's own
// code that gets to `inner`. Null where another way leads there, or the loop runs under no_grad.
const Call* recorded_method(const SourceFacts& facts, const Iteration& iteration, const Call& inner,
                            const Loop& loop) {
  constexpr int kManyLevels = 24;
  if (!records(facts, inner, loop)) return nullptr;
  for (const IteratedCall& one : iteration.calls) {
    const Call& method = *one.call;
    const ClassDef* def = method.target == nullptr ? nullptr : method.target->class_def;
    if (def == nullptr || !def->is_module || method.receiver == nullptr) continue;
    const Type& model = method.receiver_type();
    const bool is_own_method = model.is(TypeKind::module) && !model.frozen &&
                               method.name != "torch.nn.Module.__call__" &&
                               !is_inside_module(method);
    if (is_own_method && !is_frozen_in_place(*method.receiver, *method.file) &&
        records(facts, method, loop) &&
        any_call_below(*method.target, kManyLevels,
                       [&](const Call& call) { return &call == &inner; })) {
      return &method;
    }
  }
  return nullptr;
}

// agent.predict(state) gives an environment what it waits for.
bool asks_for_actions(const SourceFacts& facts, const Loop& loop) {
  return std::ranges::any_of(facts.programs_of(*loop.file), [](const Program* program) {
    return is_reinforcement_learning(*program);
  });
}

// `net(torch.randn(1, 3, 224, 224))` as a statement: the model is only tried, its result dropped.
bool only_tries(const Call& forward) {
  const std::string_view place = forward.function == nullptr ? "" : forward.function->name;
  if (contains_any(place, {"profil", "flops"})) return true;
  const bool is_dropped = forward.statement->kind == StatementKind::expression &&
                          forward.statement->value == forward.expr;
  return is_dropped && !forward.arguments.empty() &&
         std::ranges::all_of(forward.arguments, [](const Argument& argument) {
           const Call* made = resolved(argument.value)->call();
           // torch.zeros(1, 3, 64, 64).to(device).type_as(weight)
           while (made != nullptr && made->receiver != nullptr &&
                  made->receiver->call() != nullptr) {
             made = made->receiver->call();
           }
           return made != nullptr &&
                  is_one_of(made->name, {"torch.randn", "torch.rand", "torch.zeros", "torch.ones"});
         });
}

// What is called: the type of `model` in model(x), model.forward(x) and model.predict(x).
const Type& model_type(const Call& forward) {
  if (forward.name == "torch.nn.Module.__call__") return *forward.expr->children().front()->type;
  return forward.receiver_type();
}

const Call* recorded_forward(const SourceFacts& facts, const Iteration& iteration,
                             const Loop& loop) {
  for (const IteratedCall& one : iteration.calls) {
    const bool is_forward = is_model_call(*one.call) && !is_inside_module(*one.call);
    if (is_forward && !only_tries(*one.call) && records(facts, *one.call, loop)) return one.call;
  }
  for (const IteratedCall& one : iteration.calls) {
    if (!is_model_call(*one.call) || !is_inside_module(*one.call)) continue;
    const Call* method = recorded_method(facts, iteration, *one.call, loop);
    if (method != nullptr) return asks_for_actions(facts, loop) ? nullptr : method;
  }
  return nullptr;
}

// `for x in loader: model(x); break`: one pass. `for scale in scales:` is one image in several
// sizes, for whoever calls.
bool runs_once(const Loop& loop) {
  const auto body = loop.statement->body;
  const std::string over = lower(last_name(loop.statement->value));
  if (loop.function != nullptr && contains_any(over, {"scales", "flips"})) return true;
  return !body.empty() && (body.back()->kind == StatementKind::break_ ||
                           body.back()->kind == StatementKind::return_);
}

// `model.train()` before a loop over batches that updates nothing but statistics: no evaluation.
bool is_in_training_mode(const Loop& loop) {
  if (loop.function == nullptr) return false;
  const auto& calls = loop.function->calls;
  const bool evaluates =
      std::ranges::any_of(calls, [](const Call* call) { return call->method == "eval"; });
  return !evaluates && std::ranges::any_of(calls, [](const Call* call) {
    return call->method == "train" && call->receiver != nullptr && call->arguments.empty() &&
           call->receiver_type().is(TypeKind::module);
  });
}

// A decorator is surely right where the function does nothing but evaluate.
Fix fix_for(const SourceFacts& facts, const Loop& loop) {
  Fix fix{fmt::format("Put the loop under `with torch.no_grad():`{}",
                      facts.runs_before({1, 9})
                          ? ""
                          : ", or decorate the function with @torch.inference_mode()"),
          Exactness::bit_exact};
  const FunctionDef* function = loop.function;
  if (function == nullptr || !binds_torch(*loop.file)) return fix;
  const Iteration& whole = iteration_of(facts, function->body);
  const bool is_evaluation =
      !uses_gradients(whole) && function->file == loop.file &&
      std::none_of(whole.calls.begin(), whole.calls.end(), [](const auto& one) {
        return one.call->method == "step" || one.call->method == "zero_grad";
      });
  const std::string_view text = loop.file->slice(function->statement->range);
  const bool is_plain = function->decorators.empty() && !function->is_async &&
                        text.find("yield") == std::string_view::npos;
  if (!is_evaluation || !is_plain) return fix;
  add_edit(insert_line_before(*function->statement, "@torch.no_grad()"), fix);
  fix.safe = !fix.edits.empty();
  return fix;
}

// Whether the statement holds a loop of the role, itself or in functions that it runs.
bool holds_loop(const SourceFacts& facts, const Statement& statement, LoopRole role) {
  constexpr int kManyLevels = 6;
  const auto is_inside = [&](const Call& call) { return is_within(*call.statement, statement); };
  return std::ranges::any_of(facts.loops(role), [&](const Loop* loop) {
    if (loop->statement == &statement) return false;
    return is_within(*loop->statement, statement) ||
           (loop->function != nullptr && any_call_above(*loop->function, kManyLevels, is_inside));
  });
}

// A loop over epochs that has no other one inside, as one over tasks has, nor nothing but
// evaluations.
bool is_plain_epoch(const SourceFacts& facts, const Statement& statement, bool trains) {
  return statement.loop != nullptr && statement.loop->role == LoopRole::epoch &&
         !holds_loop(facts, statement, LoopRole::epoch) &&
         (trains || holds_loop(facts, statement, LoopRole::training_step));
}

// `if epoch % n == 0:` around it in its function, with an n that is large or not known; not one
// that counts steps.
bool is_rare(const SourceFacts& facts, const Statement& statement) {
  constexpr std::int64_t kOften = 10;
  bool is_rare = false;
  for (const source::PathStep& step : path_to(facts, statement)) {
    if (step.loop != nullptr) {
      if (step.loop->role == LoopRole::training_step) return false;
      continue;
    }
    const Value& interval = step.guard.interval;
    const bool is_counted = step.guard.kind == GuardKind::every_n && !step.guard.negated;
    is_rare = is_rare ||
              (is_counted && (interval.kind != ValueKind::integer || interval.integer >= kOften));
  }
  return is_rare;
}

// Whether a training runs it in each epoch or every few, or between its steps.
bool runs_each_epoch(const SourceFacts& facts, const Statement& statement, int depth = 0) {
  constexpr int kMaxLevels = 5;
  if (is_rare(facts, statement)) return false;
  for (const Statement* at = statement.parent; at != nullptr; at = at->parent) {
    if (at->kind == StatementKind::function) break;
    // One over tasks steps somewhere, too.
    const bool is_step = at->loop != nullptr && at->loop->role == LoopRole::training_step &&
                         !holds_loop(facts, *at, LoopRole::epoch);
    // A step that a library takes is not seen: what calls the evaluation may have it.
    if (is_step || is_plain_epoch(facts, *at, depth > 0)) return true;
  }
  if (statement.function == nullptr || depth == kMaxLevels) return false;
  const auto& callers = statement.function->callers;
  return !callers.empty() && std::ranges::all_of(callers, [&](const Call* caller) {
    return runs_each_epoch(facts, *caller->statement, depth + 1);
  });
}

// An environment's step takes longer than the graph of one observation; a script that does not
// train has the memory, digits take next to none, and what runs once for a task or a training is a
// small part of it.
bool takes_little(const SourceFacts& facts, const Loop& loop) {
  if (loop.loader == nullptr && asks_for_actions(facts, loop)) return true;
  return training_programs_of(facts, *loop.file).empty() || is_lesson(facts, *loop.file) ||
         !runs_each_epoch(facts, *loop.statement);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<const Call*, const FunctionDef*>> seen;  // loops in loops are one place
  for (const Loop* loop : facts.loops(LoopRole::evaluation_step)) {
    if (!runs_on_gpu(facts, *loop) || !is_user_evaluation(facts, *loop)) continue;
    if (is_wrapped(*loop) || is_never_reached(*loop->statement)) continue;
    if (!is_marked(*loop)) continue;
    const Iteration& iteration = iteration_of(facts, loop->statement->body);
    const Call* forward = recorded_forward(facts, iteration, *loop);
    if (forward == nullptr || uses_gradients(iteration)) continue;
    if (runs_once(*loop) || is_in_training_mode(*loop)) continue;
    if (takes_gradients_inside(facts, model_type(*forward), *loop->file)) continue;
    if (switches_gradients_off(facts, *loop) || !seen.emplace(forward, loop->function).second)
      continue;
    const std::string model = code_text(*forward->file, forward->expr->children().front());
    Finding finding = finding_at(
        *loop->statement,
        fmt::format(
            "the evaluation loop calls {} with gradients on: each pass keeps all activations for a "
            "backward that is never called",
            model),
        fix_for(facts, *loop));
    if (takes_little(facts, *loop)) finding.own_level = Level::info;
    finding.evidence = {
        Evidence::found(fmt::format("forward at {}, with no no_grad or inference_mode around it",
                                    place_text(*forward, *loop->file))),
        Evidence::published("PyTorch performance tuning guide, Disable gradient calculation for "
                            "validation or inference")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace training_loop_eval_builds_graph_rule

extern const Rule training_loop_eval_builds_graph{
    .id = "training_loop/eval-builds-graph",
    .level = Level::warning,
    .cause = Cause::none,
    .typical = Typical::tenth,
    .summary = "Evaluation loop runs with autograd enabled",
    .doc = training_loop_eval_builds_graph_rule::kDoc,
    .in_scripts = training_loop_eval_builds_graph_rule::find};

}  // namespace rooftile
