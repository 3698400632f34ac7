#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

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

## Evidence
- PyTorch documentation, torch.optim, section "Algorithms";
  `torch.optim.swa_utils.get_ema_multi_avg_fn`.
)md";

using namespace source;

constexpr std::size_t kFewLayers = 5;  // about ten tensors: weights and biases

struct WeightList {
  const Call* call = nullptr;   // model.parameters()
  const Expr* shown = nullptr;  // what the message names; null where nothing lists weights
};

bool is_listing(const Expr& part) {
  if (part.call == nullptr || part.call->receiver == nullptr) return false;
  const std::string_view method = part.call->method;
  return method == "parameters" || method == "named_parameters" || method == "state_dict";
}

// Lists by their name, where the source does not show what is in them: target_params,
// group["params"].
bool is_named_list(const Expr& part) {
  const bool is_item = part.kind == ExprKind::subscript && part.children.size() == 2 &&
                       part.children[1]->kind == ExprKind::text &&
                       part.children[1]->word == "params";
  const std::string_view name = last_name(&part);
  return is_item || name == "params" || name == "parameters" || name.ends_with("_params") ||
         name.ends_with("_parameters");
}

// What the loop's iterable lists, variables followed.
WeightList lists_parameters(const Expr* iterable) {
  WeightList found;
  visit(iterable, [&](const Expr& part) {
    if (found.shown != nullptr || last_name(&part) == "param_groups") return false;
    const bool is_object = part.type != nullptr &&
                           (part.type->is(TypeKind::optimizer) || part.type->is(TypeKind::module));
    if (is_object) return false;
    visit(resolved(&part), [&](const Expr& inner) {
      if (found.call == nullptr && is_listing(inner)) {
        found = {inner.call, inner.call->receiver};
      }
      return found.call == nullptr;
    });
    if (found.shown == nullptr && is_named_list(part)) found.shown = &part;
    return found.shown == nullptr;
  });
  return found;
}

// `new = model.state_dict(); for k in average: average[k] = … new[k]`
WeightList weights_by_key(const Statement& loop) {
  WeightList found;
  if (loop.target == nullptr) return found;
  const Expr& first =
      loop.target->kind == ExprKind::tuple ? *loop.target->children.front() : *loop.target;
  if (first.kind != ExprKind::name) return found;
  for_statements(loop.body, [&](const Statement& statement) {
    const bool stores = statement.kind == StatementKind::assignment &&
                        statement.target != nullptr &&
                        statement.target->kind == ExprKind::subscript;
    if (!stores || found.shown != nullptr) return;
    visit(statement.value, [&](const Expr& part) {
      const bool is_item = part.kind == ExprKind::subscript && part.children.size() == 2 &&
                           part.children[1]->kind == ExprKind::name &&
                           part.children[1]->word == first.word;
      const Expr* whole = is_item ? resolved(part.children[0]) : nullptr;
      const bool is_listed = whole != nullptr && whole->call != nullptr && is_listing(*whole);
      if (is_listed) found = {whole->call, whole->call->receiver};
      return found.shown == nullptr;
    });
  });
  return found;
}

// Reductions and tests of a gradient or weight: (p.grad ** 2).sum(), torch.isnan(p.grad).
bool reads_tensor(const Call& call) {
  bool reduces = false;
  for (const std::string_view method :
       {"sum", "mean", "abs", "max", "pow", "square", "isnan", "isinf", "isfinite", "std", "var"}) {
    reduces = reduces || call.method == method;
  }
  if (!reduces) return false;
  const auto is_weight = [](const Expr* expr) { return uses_name(expr, {"grad", "data"}); };
  return is_weight(call.receiver) ||
         std::any_of(call.arguments.begin(), call.arguments.end(),
                     [&](const Argument& argument) { return is_weight(argument.value); });
}

bool is_tensor_operation(const Expr& part) {
  if (part.kind == ExprKind::binary) {
    return part.word == "*" || part.word == "+" || part.word == "-";
  }
  if (part.call == nullptr) return false;
  for (const std::string_view method :
       {"mul_", "add_", "sub_", "div_", "copy_", "lerp_", "clamp_", "addcmul_", "addcdiv_", "norm",
        "all_reduce", "normal_", "pow_", "sign_", "clip_", "nan_to_num"}) {
    if (part.call->method == method) return true;
  }
  return reads_tensor(*part.call);
}

// `if "fc1.weight" in name:`, `if name == "head.bias":`: one tensor of all.
bool is_for_one_tensor(const Statement& statement, const Statement& loop) {
  for (const Statement* at = statement.parent; at != nullptr && at != &loop; at = at->parent) {
    const Expr* condition = at->kind == StatementKind::if_ ? at->value : nullptr;
    const bool compares = condition != nullptr && condition->kind == ExprKind::comparison &&
                          (condition->word == "in" || condition->word == "==");
    if (!compares || condition->children.size() != 2) continue;
    for (const Expr* side : condition->children) {
      const std::string_view text = side->kind == ExprKind::text ? side->word : "";
      const std::size_t dot = text.find('.');
      if (dot != std::string_view::npos && dot > 0 && dot + 1 < text.size()) return true;
    }
  }
  return false;
}

struct LoopBody {
  const Statement* operation = nullptr;
  bool uses_target = false;  // some operation is about what the loop goes through
  bool is_multi_tensor = false;
  bool zeroes_gradients = false;
};

// What `average.clone()` was computed by: average = a * x + b * y.
const Expr* computed(const Expr* value) {
  const bool copies = value != nullptr && value->call != nullptr &&
                      value->call->receiver != nullptr &&
                      (value->call->method == "clone" || value->call->method == "detach");
  return resolved(copies ? value->call->receiver : value);
}

// `ema.update(name, weight.data)`: a function of the project that works on the weight it is given.
bool works_on_argument(const Expr& part) {
  if (part.call == nullptr || part.call->target == nullptr) return false;
  const bool is_given = std::any_of(
      part.call->arguments.begin(), part.call->arguments.end(), [](const Argument& argument) {
        const Type* type = argument.value == nullptr ? nullptr : argument.value->type;
        return type != nullptr && type->is(TypeKind::tensor) &&
               (type->requires_grad || uses_name(argument.value, {"data", "grad"}));
      });
  if (!is_given) return false;
  // One call deep: the function itself, not what it calls.
  return std::any_of(part.call->target->body.begin(), part.call->target->body.end(),
                     [](const Statement* statement) {
                       const bool stores = statement->kind == StatementKind::assignment &&
                                           statement->target->kind == ExprKind::subscript;
                       const bool works = statement->kind == StatementKind::expression;
                       bool operates = false;
                       visit(computed(statement->value), [&](const Expr& inner) {
                         operates = operates || (is_tensor_operation(inner) &&
                                                 (stores || inner.kind != ExprKind::binary));
                         return !operates;
                       });
                       return operates && (stores || works);
                     });
}

// `average.data = self.update_average(average.data, weight.data)`: an own function that gives a sum
// or product, or torch.lerp, for the weight that is stored.
bool makes_weight(const Expr& part) {
  if (part.call == nullptr) return false;
  if (part.call->method == "lerp") return true;
  const FunctionDef* function = part.call->target;
  if (function == nullptr || part.call->name == "torch.nn.Module.__call__") return false;
  return std::ranges::any_of(function->body, [](const Statement* statement) {
    return statement->kind == StatementKind::return_ && statement->value != nullptr &&
           statement->value->kind == ExprKind::binary && is_tensor_operation(*statement->value);
  });
}

bool uses_names_of(const Expr& target, const Statement& statement) {
  bool found = false;
  visit(&target, [&](const Expr& name) {
    for_own_expressions(statement, [&](const Expr* own) {
      found = found || (name.kind == ExprKind::name && uses_variable(own, name.word));
    });
    return !found;
  });
  return found;
}

// A sum or product counts where it is assigned to data of a tensor, or adds up a norm.
LoopBody read_body(const Statement& loop) {
  LoopBody body;
  for_statements(loop.body, [&](const Statement& statement) {
    for_own_expressions(statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool stores = statement.kind == StatementKind::assignment &&
                            (uses_name(statement.target, {"data", "grad"}) ||
                             statement.target->kind == ExprKind::subscript);
        const bool counts = part.kind != ExprKind::binary || stores;
        const bool works = (counts && is_tensor_operation(part)) || works_on_argument(part) ||
                           (stores && makes_weight(part));
        if (works && !is_for_one_tensor(statement, loop)) {
          if (body.operation == nullptr) body.operation = &statement;
          body.uses_target = body.uses_target || uses_names_of(*loop.target, statement);
        }
        if (part.call != nullptr && part.call->method == "zero_") body.zeroes_gradients = true;
        const std::string_view name = last_name(&part);
        if (name.starts_with("_foreach")) body.is_multi_tensor = true;
        return true;
      });
    });
  });
  return body;
}

bool is_small(const Call& list) {
  // One layer out of a list of them.
  const Expr* module = resolved(list.receiver);
  if (module != nullptr && module->kind == ExprKind::subscript) return true;
  const ClassDef* def = list.receiver_type().class_def;
  if (def == nullptr || def->layers.empty() || def->layers.size() >= kFewLayers) return false;
  return std::none_of(def->layers.begin(), def->layers.end(), [](const Layer& layer) {
    const bool is_plain = layer.made_by != nullptr && layer.made_by->name.starts_with("torch.nn.");
    return layer.repeated || !is_plain;
  });
}

// The step of an own optimizer that a training program makes: scaler.step(optimizer) calls it where
// no caller is seen.
bool is_own_optimizer_step(const SourceFacts& facts, const Statement& loop) {
  const FunctionDef* function = loop.function;
  const ClassDef* def = function == nullptr ? nullptr : function->class_def;
  if (def == nullptr || function->name != "step") return false;
  const bool is_optimizer = std::any_of(def->bases.begin(), def->bases.end(), [](const Expr* base) {
    return base->full_name.starts_with("torch.optim.");
  });
  return is_optimizer && !training_calls(facts, {def->full_name}).empty();
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

bool is_each_step(const SourceFacts& facts, Context context) {
  std::erase_if(context.guards, [&](const Guard& guard) {
    return asks_for_a_step(guard) || holds_by_default(facts, guard);
  });
  return context.each_step();
}

bool runs_each_step(const SourceFacts& facts, const Statement& loop) {
  if (is_own_optimizer_step(facts, loop)) return true;
  const auto contexts = facts.contexts(loop);
  return std::any_of(contexts.begin(), contexts.end(), [&](const Context& context) {
    return context.role == LoopRole::training_step && context.step_loop != nullptr &&
           is_each_step(facts, context) && is_reached_by_default(facts, context);
  });
}

Finding describe(const File& file, const Statement& loop, const WeightList& list,
                 const Statement& operation) {
  Finding finding = finding_at(
      loop,
      fmt::format("every step runs a Python loop over the tensors of {}, at least one kernel "
                  "each, with the launch of each one as the cost",
                  code_text(*list.shown->statement->file, list.shown)),
      {"Use one torch._foreach_* call over the list of tensors (_foreach_lerp_ for an average, "
       "_foreach_norm for norms), or torch.optim.swa_utils.AveragedModel",
       Exactness::exact_arithmetic});
  finding.evidence = {
      fmt::format("`{}` at {}",
                  code_text(file, operation.value != nullptr ? operation.value : operation.target),
                  place_text(operation, file)),
      "PyTorch documentation, torch.optim, Algorithms: foreach against for-loop"};
  return finding;
}

std::optional<Finding> judge(const SourceFacts& facts, const File& file, const Statement& loop) {
  if (loop.kind != StatementKind::for_) return std::nullopt;
  WeightList list = lists_parameters(loop.value);
  if (list.shown == nullptr) list = weights_by_key(loop);
  if (list.shown == nullptr || (list.call != nullptr && is_small(*list.call))) return std::nullopt;
  const LoopBody body = read_body(loop);
  if (body.operation == nullptr || body.is_multi_tensor || body.zeroes_gradients) {
    return std::nullopt;
  }
  // Known as weights by a name alone: then the work has to be on what the loop goes through.
  if (list.call == nullptr && !body.uses_target) return std::nullopt;
  if (!runs_each_step(facts, loop)) return std::nullopt;
  return describe(file, loop, list, *body.operation);
}

// `torch.sum(p ** 2)`: a reduction of what the comprehension goes through.
bool reduces_weight(const Expr& part, const Expr& comprehension) {
  if (part.call == nullptr || !is_one_of(part.call->method, {"sum", "norm", "mean", "square"})) {
    return false;
  }
  bool is_of_weight = false;
  for (const Expr* clause : comprehension.children) {
    if (clause->kind != ExprKind::for_clause || clause->children.empty()) continue;
    visit(clause->children[0], [&](const Expr& target) {
      is_of_weight =
          is_of_weight || (target.kind == ExprKind::name && uses_variable(&part, target.word));
      return true;
    });
  }
  return is_of_weight;
}

// `[p.grad.norm() for p in params]`: a list of norms that a sum or stack then takes.
const Expr* norms_in(const Statement& statement, WeightList& list) {
  const Expr* found = nullptr;
  const auto look = [&](const Expr& part) {
    if (found != nullptr || part.kind == ExprKind::lambda) return false;
    if (part.kind != ExprKind::comprehension || part.children.size() < 2) return true;
    bool works = false, reduces = false;
    visit(part.children[0], [&](const Expr& inner) {
      reduces = reduces || reduces_weight(inner, part);
      works = works || (inner.call != nullptr && is_tensor_operation(inner) &&
                        uses_name(&inner, {"grad", "data"}));
      return !works;
    });
    for (const Expr* clause : part.children) {
      const bool is_loop = clause->kind == ExprKind::for_clause && clause->children.size() == 2;
      if ((works || reduces) && is_loop && list.shown == nullptr) {
        list = lists_parameters(clause->children[1]);
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
  if (norms == nullptr || (list.call != nullptr && is_small(*list.call))) return std::nullopt;
  const std::string_view text = file.slice(norms->range);
  if (text.find("_foreach") != std::string_view::npos) return std::nullopt;
  if (!runs_each_step(facts, statement)) return std::nullopt;
  return describe(file, statement, list, statement);
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!mentions(*file, {"parameters", "params", "state_dict"})) continue;
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Statement* statement : file->statements) {
      auto finding = judge(facts, *file, *statement);
      if (!finding) finding = judge_norms(facts, *file, *statement);
      if (finding) findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace optimizer_per_parameter_loop_rule

extern const Rule optimizer_per_parameter_loop{
    .id = "optimizer/per-parameter-loop",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "a Python loop works on the weights one by one in each step",
    .doc = optimizer_per_parameter_loop_rule::kDoc,
    .check = optimizer_per_parameter_loop_rule::check};

}  // namespace rooftile
