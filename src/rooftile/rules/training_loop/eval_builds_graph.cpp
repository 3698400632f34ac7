#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/iteration.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

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

## Evidence
- PyTorch performance tuning guide, "Disable gradient calculation for validation or inference".
)md";

using namespace source;

// Gradients are wanted: attacks, saliency, test-time training.
bool uses_gradients(const Iteration& iteration) {
  return std::any_of(iteration.calls.begin(), iteration.calls.end(), [](const IteratedCall& one) {
    return one.call->name == "torch.autograd.grad" || one.call->method == "backward" ||
           one.call->method == "requires_grad_" || one.call->method == "retain_grad" ||
           one.call->name.starts_with("torch.func.") || one.call->name == "torch.autograd.backward";
  });
}

bool is_in_function(const Call& call, const Loop& loop) {
  return call.file == loop.file && call.function == loop.function;
}

// `for p in model.features.parameters():` leaves the rest of the model as it is, and so does what
// is done to some of what a loop goes through: `if isinstance(m, nn.BatchNorm2d):`.
bool goes_through_part(const Statement* outer) {
  bool has_condition = false;
  while (outer != nullptr && outer->loop == nullptr) {
    has_condition = has_condition || outer->kind == StatementKind::if_;
    outer = outer->parent;
  }
  if (outer != nullptr && has_condition) return true;
  const Call* call = outer == nullptr || outer->value == nullptr ? nullptr : outer->value->call;
  const Expr* owner = call == nullptr ? nullptr : call->receiver;
  const bool is_attribute = owner != nullptr && owner->kind == ExprKind::attribute &&
                            !owner->children.empty() && owner->word != "module";
  return is_attribute && owner->children[0]->word != "self" &&
         (call->method == "parameters" || call->method == "named_parameters");
}

// `for p in model.parameters(): p.requires_grad = False` before the loop.
bool freezes_parameters(const Loop& loop) {
  const std::span<const Statement* const> body =
      loop.function != nullptr ? loop.function->body : loop.file->body;
  bool freezes = false;
  for_statements(body, [&](const Statement& statement) {
    freezes = freezes || (freezes_parameter(statement) &&
                          statement.range.begin < loop.statement->range.begin &&
                          !goes_through_part(&statement));
  });
  return freezes;
}

// Inputs are made volatile in the loop or before it; a script does more than this one loop.
bool may_feed(const Call& call, const Loop& loop) {
  const ByteRange at = loop.statement->range;
  if (call.expr->range.begin >= at.end) return false;
  return loop.function != nullptr || call.expr->range.begin >= at.begin ||
         call.argument("volatile") != nullptr;
}

// Before PyTorch 0.4: Variable(x, volatile=True), or a function of the project that can do it.
bool makes_volatile(const Call& call) {
  if (call.argument("volatile") != nullptr) return true;
  return call.target != nullptr &&
         std::any_of(call.target->calls.begin(), call.target->calls.end(),
                     [](const Call* inner) { return inner->argument("volatile") != nullptr; });
}

bool switches_gradients_off(const SourceFacts& facts, const Loop& loop) {
  for (const Call* call : facts.method_calls("set_grad_enabled")) {
    const bool is_near = is_in_function(*call, loop) || call->function == nullptr;
    if (call->file == loop.file && is_near) return true;
  }
  const bool is_volatile =
      std::any_of(loop.file->calls.begin(), loop.file->calls.end(), [&](const Call* call) {
        return is_in_function(*call, loop) && may_feed(*call, loop) && makes_volatile(*call);
      });
  return is_volatile || freezes_parameters(loop);
}

// In a program that trains on a GPU, or in a script that evaluates there.
bool runs_on_gpu(const SourceFacts& facts, const Loop& loop) {
  if (trains_on_gpu(facts, *loop.file)) return true;
  if (!loop.on_gpu || is_test(*loop.file)) return false;
  const auto programs = facts.programs_of(*loop.file);
  return std::any_of(programs.begin(), programs.end(),
                     [](const Program* program) { return program->entry != nullptr; });
}

// A framework calls the function without gradients.
bool is_wrapped(const Loop& loop) {
  const ClassDef* def = loop.function == nullptr ? nullptr : loop.function->class_def;
  return def != nullptr && (def->is_lightning_module || def->is_hf_trainer);
}

// An own decorator around torch's, by its name: @smart_inference_mode().
bool is_decorated(const Context& context) {
  return std::any_of(context.guards.begin(), context.guards.end(), [](const Guard& guard) {
    if (guard.kind != GuardKind::decorator || guard.expr == nullptr) return false;
    const std::string_view name =
        guard.expr->call != nullptr ? guard.expr->call->method : last_name(guard.expr);
    return name.find("no_grad") != std::string_view::npos ||
           name.find("inference") != std::string_view::npos;
  });
}

// `if model.training: … else: with no_grad(): …` in the loop: the model is in evaluation mode.
bool asks_for_training(const Context& context) {
  return std::ranges::any_of(context.guards, [](const Guard& guard) {
    return guard.kind == GuardKind::training && !guard.negated && guard.in_loop &&
           guard.expr != nullptr && guard.expr->kind == ExprKind::attribute &&
           guard.expr->word == "training";
  });
}

// Whether this way leads from the loop to a forward that keeps its graph.
bool is_recorded(const SourceFacts& facts, const Context& context, const Loop& loop) {
  return context.step_loop == &loop && !context.gradients_off() && !is_decorated(context) &&
         !asks_for_training(context) && is_open_on_the_way(context) &&
         is_reached_by_default(facts, context);
}

bool records(const SourceFacts& facts, const Call& call, const Loop& loop) {
  const auto contexts = facts.contexts(call);
  return std::any_of(contexts.begin(), contexts.end(),
                     [&](const Context& context) { return is_recorded(facts, context, loop); });
}

// `model.eval().requires_grad_(False)` as a statement of its own.
bool is_frozen_in_place(const Expr& model, const File& file) {
  return std::any_of(file.calls.begin(), file.calls.end(), [&](const Call* call) {
    const bool switches_off = call->method == "requires_grad_" && !call->arguments.empty() &&
                              call->arguments.front().value->word == "False";
    return switches_off && is_same_object(call->receiver, &model);
  });
}

bool may_hold_weights(const Statement& statement) {
  const Expr* value = statement.value;
  if (value != nullptr && value->call != nullptr) {
    for (const std::string_view method : {"Parameter", "register_parameter", "add_module"}) {
      if (value->call->method == method) return true;
    }
  }
  const bool sets_member = statement.kind == StatementKind::assignment &&
                           statement.target->kind == ExprKind::attribute && value != nullptr;
  if (!sets_member) return false;
  const TypeKind kind = value->type->kind;
  return kind != TypeKind::number && kind != TypeKind::text && kind != TypeKind::array &&
         kind != TypeKind::tensor;
}

// nn.Softmax, nn.Upsample, nn.MaxPool2d, …: layers of the library that hold nothing.
bool is_plain_function(std::string_view name) {
  if (!name.starts_with("torch.nn.")) return false;
  name.remove_prefix(name.rfind('.') + 1);
  if (contains_any(name, {"Pool", "Dropout", "Pad", "Upsampl", "Shuffle", "Softm", "Sigmoid"})) {
    return true;
  }
  return is_one_of(name, {"ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Tanh",
                          "Hardtanh", "Hardswish", "Softplus", "Flatten", "Unflatten", "Fold",
                          "Unfold", "Identity", "CosineSimilarity", "PairwiseDistance"});
}

// An own module that keeps nothing but numbers and tensors: a spectrogram, a normalisation.
bool has_no_weights(const Type& type) {
  const ClassDef* def = type.class_def;
  if (def == nullptr) {
    return is_plain_function(type.made_by != nullptr ? type.made_by->name : type.name);
  }
  const FunctionDef* init = def->method("__init__");
  if (init == nullptr || !def->layers.empty()) return false;
  const bool is_plain = std::all_of(def->bases.begin(), def->bases.end(), [](const Expr* base) {
    return base->full_name == "torch.nn.Module";
  });
  bool holds = false;
  for_statements(init->body,
                 [&](const Statement& statement) { holds = holds || may_hold_weights(statement); });
  return is_plain && !holds;
}

// A call of a model whose weights want gradients, also model.forward(x); a loss has none.
bool is_model_call(const Call& call) {
  const bool is_forward = call.method == "forward" && call.receiver != nullptr;
  if (call.expr->children.empty()) return false;
  if (!is_forward && call.name != "torch.nn.Module.__call__") return false;
  const Expr& model = is_forward ? *call.receiver : *call.expr->children.front();
  const bool is_trainable = model.type != nullptr && model.type->is(TypeKind::module) &&
                            !model.type->frozen && !has_no_weights(*model.type);
  return is_trainable && !is_frozen_in_place(model, *call.file);
}

// `model.predict(x)`, a method of an own module that runs its layers: the call in the loop's own
// code that gets to `inner`. Null where another way leads there, or the loop runs under no_grad.
const Call* recorded_method(const SourceFacts& facts, const Call& inner, const Loop& loop) {
  for (const Context& context : facts.contexts(inner)) {
    if (!is_recorded(facts, context, loop)) continue;
    const auto enters = std::ranges::find_if(
        context.calls, [](const Call* call) { return call->target->class_def != nullptr; });
    if (enters == context.calls.end() || (*enters)->receiver == nullptr) continue;
    const Call& method = **enters;
    const Type& model = method.receiver_type();
    const bool is_own_method = model.is(TypeKind::module) && !model.frozen &&
                               method.name != "torch.nn.Module.__call__" &&
                               method.target->class_def->is_module && !is_inside_module(method);
    if (is_own_method && !is_frozen_in_place(*method.receiver, *method.file)) return &method;
  }
  return nullptr;
}

// agent.predict(state) gives an environment what it waits for.
bool asks_for_actions(const SourceFacts& facts, const Loop& loop) {
  return std::ranges::any_of(facts.programs_of(*loop.file), [](const Program* program) {
    return is_reinforcement_learning(*program);
  });
}

const Call* recorded_forward(const SourceFacts& facts, const Iteration& iteration,
                             const Loop& loop) {
  for (const IteratedCall& one : iteration.calls) {
    const bool is_forward = is_model_call(*one.call) && !is_inside_module(*one.call);
    if (is_forward && records(facts, *one.call, loop)) return one.call;
  }
  for (const IteratedCall& one : iteration.calls) {
    if (!is_model_call(*one.call) || !is_inside_module(*one.call)) continue;
    const Call* method = recorded_method(facts, *one.call, loop);
    if (method != nullptr) return asks_for_actions(facts, loop) ? nullptr : method;
  }
  return nullptr;
}

// `for x in loader: model(x); break`: one pass.
bool runs_once(const Loop& loop) {
  const auto body = loop.statement->body;
  return !body.empty() && body.back()->kind == StatementKind::break_;
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

// `net(torch.randn(1, 3, 224, 224))` as a statement: the model is only tried, its result dropped.
bool only_tries(const Call& forward) {
  const std::string_view place = forward.function == nullptr ? "" : forward.function->name;
  if (contains_any(place, {"profil", "flops"})) return true;
  const Statement* statement = forward.statement;
  const bool is_dropped = statement != nullptr && statement->kind == StatementKind::expression &&
                          statement->value == forward.expr;
  return is_dropped && !forward.arguments.empty() &&
         std::ranges::all_of(forward.arguments, [](const Argument& argument) {
           const Call* made = resolved(argument.value)->call;
           return made != nullptr &&
                  is_one_of(made->name, {"torch.randn", "torch.rand", "torch.zeros", "torch.ones"});
         });
}

// A decorator is surely right where the function does nothing but evaluate.
Fix fix_for(const Loop& loop) {
  Fix fix{
      "Put the loop under `with torch.no_grad():`, or decorate the function with "
      "@torch.inference_mode()",
      Exactness::bit_exact};
  const FunctionDef* function = loop.function;
  if (function == nullptr || !binds_torch(*loop.file)) return fix;
  const Iteration whole = iteration_of(function->body);
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

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::set<std::pair<const Call*, const FunctionDef*>> seen;  // loops in loops are one place
  for (const Loop* loop : facts.loops(LoopRole::evaluation_step)) {
    if (!runs_on_gpu(facts, *loop) || !is_user_evaluation(facts, *loop)) continue;
    if (is_wrapped(*loop)) continue;
    const Iteration iteration = iteration_of(loop->statement->body);
    const Call* forward = recorded_forward(facts, iteration, *loop);
    if (forward == nullptr || uses_gradients(iteration)) continue;
    if (runs_once(*loop) || only_tries(*forward) || is_in_training_mode(*loop)) continue;
    if (switches_gradients_off(facts, *loop) || !seen.emplace(forward, loop->function).second)
      continue;
    const std::string model = forward->expr->children.empty()
                                  ? "the model"
                                  : code_text(*forward->file, forward->expr->children.front());
    Finding finding = finding_at(
        *loop->statement,
        fmt::format(
            "the evaluation loop calls {} with gradients on: all activations are kept for a "
            "backward that never comes",
            model),
        fix_for(*loop));
    finding.evidence = {fmt::format("forward at {}, with no no_grad or inference_mode around it",
                                    place_text(*forward, *loop->file)),
                        "PyTorch performance tuning guide, Disable gradient calculation for "
                        "validation or inference"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace training_loop_eval_builds_graph_rule

extern const Rule training_loop_eval_builds_graph{
    .id = "training_loop/eval-builds-graph",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "an evaluation loop records the graph for a backward that never comes",
    .doc = training_loop_eval_builds_graph_rule::kDoc,
    .check = training_loop_eval_builds_graph_rule::check};

}  // namespace rooftile
