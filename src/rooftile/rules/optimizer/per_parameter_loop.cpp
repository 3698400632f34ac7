#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/own_optimizers.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/weight_loops.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace optimizer_per_parameter_loop_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A `for` over `parameters()`, `named_parameters()` or `state_dict()` that runs at least one tensor
operation per weight on every training step: moving averages, target networks, clipping of weights,
hand-written updates, norms or averages of gradients.

## Why it costs time
Each operation is a kernel of a few microseconds with a launch of about as many; a network has
hundreds of tensors. The GPU waits for Python.

## How to fix
`torch._foreach_*` operations work on a list of tensors in a few kernels: `_foreach_lerp_(ema,
weights, 1 - decay)`. For averages there is `torch.optim.swa_utils.AveragedModel` with
`get_ema_multi_avg_fn`, for norms `clip_grad_norm_`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- The loop runs every tenth step or more rarely.
- Networks of fewer than about ten tensors.
- Loops that only set flags or gradients to None.
- Information throughout: large tensors cost bytes rather than launches, many passes of gradients run beside
  one loop, and only the whole body says which calls fit.

## Evidence
- PyTorch documentation, torch.optim, section "Algorithms";
  `torch.optim.swa_utils.get_ema_multi_avg_fn`.
)md";

using namespace source;

constexpr std::size_t kFewLayers = 5;  // about ten tensors: weights and biases

// A member that a layer of the class does not say all of: own modules, lists that functions make.
bool may_hold_more(const ClassDef& def) {
  const bool is_plain = std::ranges::all_of(
      def.bases, [](const Expr* base) { return base->full_name() == "torch.nn.Module"; });
  const FunctionDef* init = def.method("__init__");
  if (!is_plain || init == nullptr) return true;
  bool holds = false;
  for_statements(init->body, [&](const Statement& statement) {
    // `self.layer.weight.data = …` is no member of its own.
    const Expr* target = statement.kind == StatementKind::assignment ? statement.target : nullptr;
    const bool sets_member = target != nullptr && target->kind == ExprKind::attribute &&
                             target->children().front()->kind == ExprKind::name;
    if (!sets_member || statement.value == nullptr) return;
    const TypeKind kind = resolved(statement.value)->type->kind;
    const bool is_layer = std::ranges::any_of(
        def.layers, [&](const Layer& layer) { return layer.statement == &statement; });
    const bool may_be = kind == TypeKind::module || kind == TypeKind::container ||
                        (kind == TypeKind::unknown && resolved(statement.value)->call() != nullptr);
    holds = holds || (may_be && !is_layer);
  });
  return holds;
}

// One layer out of a list of them; `pair[0]` of a pair of models is a whole model.
bool is_one_of_list(const Expr* module) {
  if (module == nullptr || module->kind != ExprKind::subscript) return false;
  const std::string list = lower(last_name(module->children().front()));
  return !contains_any(list, {"model", "net", "pair", "agent", "critic", "encoder", "ema"});
}

// The class of a module, also of one that all callers pass; null where it is not known.
const ClassDef* class_of(const SourceFacts& facts, const Expr& module) {
  const ClassDef* found = module.type->class_def;
  if (found != nullptr) return found;
  for (const Expr* passed : script::origins(facts, module)) {
    const ClassDef* def = passed->type->class_def;
    if (def == nullptr || (found != nullptr && found != def)) return nullptr;
    found = def;
  }
  return found;
}

// `nn.Linear(n, m)`, which is a weight and a bias; containers, recurrent layers and Transformers
// have many.
bool is_one_layer(const Expr* module) {
  const std::string_view name = module == nullptr ? "" : module->type->name;
  return name.starts_with("torch.nn.") &&
         (contains_any(name, {"Linear", "Conv", "Norm", "Embedding", "Parameter"}));
}

bool is_small(const SourceFacts& facts, const Call& list) {
  const Expr* module = resolved(list.receiver);
  if (is_one_layer(module)) return true;
  if (is_one_of_list(module)) return true;
  if (list.receiver_type().is(TypeKind::loss)) return true;  // the centers of a center loss
  // The centres of a loss are one tensor or two.
  if (contains_any(lower(last_name(module)), {"criterion", "loss"})) return true;
  const ClassDef* def = module == nullptr ? nullptr : class_of(facts, *module);
  if (def == nullptr || def->layers.empty() || def->layers.size() >= kFewLayers) return false;
  return !may_hold_more(*def) &&
         std::none_of(def->layers.begin(), def->layers.end(), [](const Layer& layer) {
           const bool is_plain = layer.made_by->name.starts_with("torch.nn.");
           return layer.repeated || !is_plain;
         });
}

// `if took_step:`, `if accelerator.sync_gradients:`: on each step of the optimizer.
bool asks_for_a_step(const Guard& guard) {
  if (guard.kind != GuardKind::condition || guard.negated) return false;
  const std::string_view name = last_name(guard.expr);
  return name == "sync_gradients" || name == "took_step" || name == "do_step" ||
         name == "step_taken" || name == "update_grad" || name == "need_update";
}

// A condition that holds with all options at their defaults: `norm_type == 2`.
bool holds_by_default(const SourceFacts& facts, const Guard& guard) {
  if (guard.kind != GuardKind::condition) return false;
  const Value value = facts.value(guard.expr);
  return value.known() && value.is_true() != guard.negated;
}

// `step % 2 == 0`: below ten steps is no guard.
bool is_often(const Guard& guard) {
  constexpr std::int64_t kRareInterval = 10;
  return guard.kind == GuardKind::every_n && guard.interval.kind == ValueKind::integer &&
         guard.interval.integer < kRareInterval;
}

// `if finite: scaler.step(optimizer); average()`: whenever the optimizer steps.
bool guards_the_step(const Guard& guard, const Loop& loop) {
  const Statement* step = loop.optimizer_step == nullptr ? nullptr : loop.optimizer_step->statement;
  if (guard.statement == nullptr || step == nullptr || guard.negated) return false;
  return guard.statement->kind == StatementKind::if_ && is_within(*step, *guard.statement);
}

// `if should_update: clip(model.parameters()); optimizer.step()`
bool is_with_a_step(const Guard& guard) {
  const Statement* branch = guard.statement;
  if (branch == nullptr || branch->kind != StatementKind::if_ || guard.negated) return false;
  return std::ranges::any_of(branch->body, [](const Statement* each) {
    return std::ranges::any_of(calls_inside(*each), [](const Call* call) {
      return call->method == "step" && call->receiver != nullptr &&
             (call->receiver_type().is(TypeKind::optimizer) ||
              contains(lower(last_name(call->receiver)), "opt"));
    });
  });
}

bool runs_each_step(const SourceFacts& facts, const Statement& loop) {
  if (is_training_optimizer_step(facts, loop.function) || is_hot(facts, loop)) return true;
  return any_way(facts, loop, [&](const Way& way) {
    return way.trains() && !way.is_off_by_default &&
           leads_from_step(facts, loop, [&](const Guard& guard) {
             const bool is_open =
                 asks_for_a_step(guard) || holds_by_default(facts, guard) || is_often(guard) ||
                 is_with_a_step(guard) ||
                 (way.step_loop != nullptr && guards_the_step(guard, *way.step_loop));
             return !is_open && is_condition_in_step(guard);
           });
  });
}

// What there is for the work that the loop does.
std::string_view remedy_for(const Statement& loop, const Statement& operation) {
  const bool reduces = any_part(operation, [&](const Expr& part) {
    return part.call() != nullptr &&
           is_one_of(part.call()->method, {"norm", "sum", "isnan", "isinf"});
  });
  if (reduces) return "Use torch._foreach_norm, or one torch._foreach_* call for each of its steps";
  std::string names = lower(loop.file->slice(loop.range));
  if (loop.function != nullptr) {
    names += lower(loop.function->full_name);
  }
  if (contains_any(names,
                   {"ema", "average", "shadow", "teacher", "momentum", "target", "polyak"})) {
    return "Use torch._foreach_lerp_ over the two lists of tensors, or "
           "torch.optim.swa_utils.AveragedModel";
  }
  return "Use one torch._foreach_* call over the list of tensors for each of its steps "
         "(_foreach_mul_, _foreach_add_, _foreach_copy_ and the like)";
}

Finding describe(const File& file, const Statement& loop, const WeightList& list,
                 const Statement& operation) {
  Finding finding = finding_at(
      loop,
      fmt::format("every step runs a Python loop over the tensors of {}, at least one kernel "
                  "each, with the launch of each one as the cost",
                  code_text(*list.shown->statement->file, list.shown)),
      {std::string(remedy_for(loop, operation)), Exactness::exact_arithmetic});
  finding.evidence = {
      Evidence::found(fmt::format(
          "`{}` at {}",
          code_text(file, operation.value != nullptr ? operation.value : operation.target),
          place_text(operation, file))),
      Evidence::published("foreach against for-loop",
                          "PyTorch documentation, torch.optim, Algorithms")};
  return finding;
}

bool chooses_multi_tensor(const FunctionDef* function) {
  if (function == nullptr) return false;
  const std::string_view text = function->file->slice(function->statement->range);
  return contains_any(text,
                      {"_foreach_", "multi_tensor", ".foreach", "if foreach", "[\"foreach\"]"});
}

// The function works on lists of tensors, and the loop on what is left or where that cannot be had;
// or who calls it chooses between such a function and the one with the loop.
bool has_multi_tensor_way(const Statement& loop) {
  return chooses_multi_tensor(loop.function) ||
         (loop.function != nullptr &&
          std::ranges::any_of(loop.function->callers, [](const Call* caller) {
            return chooses_multi_tensor(caller->function);
          }));
}

// `for k, v in params.items():`, `for w in weights:`, weights by that name alone: numbers, or a few
// tensors that are joined already, may have it too.
bool may_be_numbers(const WeightList& list, const Statement& loop, const Statement& operation) {
  const Call* over = loop.value->call();
  const bool is_table = over != nullptr && over->method == "items";
  const bool is_open =
      is_table || is_one_of(last_name(list.shown), {"weights", "grads", "gradients"});
  if (list.call != nullptr || !is_open) return false;
  return !any_part(operation, [&](const Expr& part) {
    const bool is_call = part.call() != nullptr && part.call()->receiver != nullptr;
    return is_one_of(last_name(&part), {"grad", "data"}) ||
           (is_call && (part.call()->method.ends_with("_") || part.call()->method == "norm")) ||
           (is_table && (contains(last_name(&part), "grad") ||
                         (is_call && part.call()->name.starts_with("torch."))));
  });
}

std::optional<Finding> judge(const SourceFacts& facts, const File& file, const Statement& loop) {
  if (loop.kind != StatementKind::for_) return std::nullopt;
  // Of gradients that are zeroed another rule speaks.
  if (loop.function != nullptr && loop.function->name == "zero_grad") return std::nullopt;
  WeightList list = lists_parameters(loop.value);
  if (list.shown == nullptr) list = weights_by_key(loop);
  if (list.shown == nullptr || (list.call != nullptr && is_small(facts, *list.call)))
    return std::nullopt;
  const LoopBody body = read_body(loop);
  if (body.operation == nullptr || body.is_multi_tensor) return std::nullopt;
  if (may_be_numbers(list, loop, *body.operation)) return std::nullopt;
  // Known as weights by a name alone: then the work has to be on what the loop goes through.
  if (list.call == nullptr && !body.uses_target) return std::nullopt;
  if (has_multi_tensor_way(loop) || !runs_each_step(facts, loop)) return std::nullopt;
  return describe(file, loop, list, *body.operation);
}

// `torch.sum(p ** 2)`: a reduction of what the comprehension goes through.
bool reduces_weight(const Expr& part, const Expr& comprehension) {
  if (part.call() == nullptr ||
      !is_one_of(part.call()->method, {"sum", "norm", "mean", "square"})) {
    return false;
  }
  const auto is_weight = [&](const Expr& target) {
    return target.kind == ExprKind::name && uses_variable(&part, target.word());
  };
  return std::ranges::any_of(comprehension.children(), [&](const Expr* clause) {
    return clause->kind == ExprKind::for_clause && any_inside(clause->children()[0], is_weight);
  });
}

// `[p.grad.norm() for p in params]`: a list of norms that a sum or stack then takes.
const Expr* norms_in(const Statement& statement, WeightList& list) {
  const Expr* found = nullptr;
  const auto look = [&](const Expr& part) {
    if (found != nullptr || part.kind == ExprKind::lambda) return false;
    if (part.kind != ExprKind::comprehension) return true;
    const bool reduces = any_inside(part.children()[0],
                                    [&](const Expr& inner) { return reduces_weight(inner, part); });
    bool works = any_inside(part.children()[0], [](const Expr& inner) {
      return inner.call() != nullptr && is_tensor_operation(inner) &&
             uses_name(&inner, {"grad", "data"});
    });
    for (const Expr* clause : part.children()) {
      const bool is_loop = clause->kind == ExprKind::for_clause && clause->children().size() == 2;
      if ((works || reduces) && is_loop && list.shown == nullptr) {
        list = lists_parameters(clause->children()[1]);
      }
    }
    // By a name alone it may be any list of numbers.
    if (!works && list.call == nullptr) list = {};
    works = works || list.call != nullptr;
    if (works && list.shown != nullptr) found = &part;
    return true;
  };
  for_own_expressions(statement, [&](const Expr* expr) { visit(expr, look); });
  return found;
}

std::optional<Finding> judge_norms(const SourceFacts& facts, const File& file,
                                   const Statement& statement) {
  if (statement.loop != nullptr) return std::nullopt;
  WeightList list;
  const Expr* norms = norms_in(statement, list);
  if (norms == nullptr || (list.call != nullptr && is_small(facts, *list.call)))
    return std::nullopt;
  const std::string_view text = file.slice(norms->range);
  if (text.find("_foreach") != std::string_view::npos) return std::nullopt;
  if (!runs_each_step(facts, statement)) return std::nullopt;
  return describe(file, statement, list, statement);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"parameters", "params", "state_dict", "weights", "grads"})) continue;
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : file->statements) {
      auto finding = judge(facts, *file, *statement);
      if (!finding) finding = judge_norms(facts, *file, *statement);
      if (!finding) continue;
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace optimizer_per_parameter_loop_rule

extern const Rule optimizer_per_parameter_loop{
    .id = "optimizer/per-parameter-loop",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Python loop updates the weights one by one in every step",
    .doc = optimizer_per_parameter_loop_rule::kDoc,
    .in_scripts = optimizer_per_parameter_loop_rule::find};

}  // namespace rooftile
