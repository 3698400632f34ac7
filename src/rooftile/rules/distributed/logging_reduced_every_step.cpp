#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/analysis/source/host_reads.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace logging_reduced_every_step {

constexpr std::string_view kDoc = R"md(
## What it finds
`all_reduce`, `reduce` or `all_gather` of a loss or metric in the training loop of a distributed
program, directly or in a function of the project, whose result does not reach a backward.

## Why it costs time
Each exchange waits for the slowest process and adds a kernel with its latency; reading the result
then waits for the GPU as well.

## How to fix
Add the value up on each GPU and exchange it once per log interval: `if step % 50 == 0`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The result is part of the computation: gathered features of a contrastive loss, centres, counts.
- Under a guard of ten steps or more.
- One to three exchanges of a number, 20 to 100 us each beside those of the gradients, or more beside waits
  that stay: information.

## Evidence
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization".
)md";

using namespace source;

bool is_exchange(const Call& call) {
  const bool is_collective =
      is_one_of(call.name, {"torch.distributed.all_reduce", "torch.distributed.reduce",
                            "torch.distributed.all_gather", "torch.distributed.all_gather_object",
                            "torch.distributed.nn.all_reduce", "torch.distributed.gather",
                            "torch.distributed.all_gather_into_tensor"});
  return is_collective || (call.receiver_type().is(TypeKind::accelerator) &&
                           is_one_of(call.method, {"reduce", "gather", "gather_for_metrics"}));
}

// Whether a function's own work is an exchange, not a whole step; asked for many calls of few.
using Exchanging = std::unordered_map<const FunctionDef*, bool>;

bool exchanges(const FunctionDef& function, Exchanging& known) {
  const auto [at, is_new] = known.emplace(&function, false);
  if (!is_new) return at->second;
  bool found = false;
  for_functions_below(function, kMaxCallDepth, [&](const FunctionDef& one) {
    const bool is_step = std::ranges::any_of(one.calls, [](const Call* call) {
      return call->method == "backward" || call->name == "torch.nn.Module.__call__";
    });
    found = found || (!is_step && std::ranges::any_of(one.calls, [](const Call* call) {
              return is_exchange(*call);
            }));
    return !is_step && !found;
  });
  return at->second = found;
}

// {"loss": loss.item(), …}: a number of the host has no gradient left.
bool holds_numbers(const Expr* expr) {
  const Expr* made = resolved(expr);
  bool found = false;
  visit(made, [&](const Expr& part) {
    visit(resolved(&part), [&](const Expr& inner) {
      found = found || (inner.call() != nullptr && inner.call()->method == "item");
      return !found;
    });
    return !found;
  });
  return found && made->kind == ExprKind::dict;
}

// The scale of a loss is none: loss_scale.
bool is_metric_word(std::string_view word) {
  return !contains(lower(word), "scale") &&
         contains_any(lower(word), {"loss", "acc", "metric", "prec", "err", "top1", "top5"});
}

// {"loss": loss, "accuracy": …}
bool has_metric_keys(const Expr* expr) {
  const Expr* made = resolved(expr);
  return made->kind == ExprKind::dict &&
         std::ranges::any_of(made->children(), [](const Expr* part) {
           return part->kind == ExprKind::text && is_metric_word(part->word());
         });
}

// float(all_reduce(x)), all_gather(x).mean().item(): no gradient can come back through a number.
bool becomes_number(const Call& call) {
  const auto goes_on = [](const Expr* made) {  // .mean(), of the attribute behind the call
    const bool is_reduction = made != nullptr && made->kind == ExprKind::attribute &&
                              made->parent != nullptr && made->parent->call() != nullptr &&
                              made->parent->call()->receiver == made->children().front();
    return is_reduction && is_one_of(made->word(), {"mean", "sum", "max", "min", "float", "detach",
                                                    "cpu", "double", "std", "squeeze"});
  };
  const Expr* outer = call.expr->parent;
  while (goes_on(outer)) outer = outer->parent->parent;
  if (outer == nullptr) return false;
  if (outer->call() != nullptr && outer->call()->name == "float") return true;
  return outer->kind == ExprKind::attribute && outer->word() == "item";
}

// Says by its name or by its class that it keeps numbers for a log.
bool is_for_log(const FunctionDef& function) {
  const auto says = [](std::string_view name) {
    return contains_any(lower(name), {"log", "reduce", "meter", "metric", "record", "gather",
                                      "sync", "aver", "stat"});
  };
  return says(function.name) || (function.class_def != nullptr && says(function.class_def->name));
}

// A method that gives nothing back and is not for a log: it keeps what it gets for the training,
// as a sampler that weighs by the loss.
bool keeps_for_training(const FunctionDef* function) {
  if (function == nullptr || function->class_def == nullptr || is_for_log(*function)) return false;
  bool returns = false, steps = false;
  for_statements(function->body, [&](const Statement& statement) {
    returns = returns || (statement.kind == StatementKind::return_ && statement.value != nullptr);
  });
  for (const Call* call : function->calls) {
    steps = steps || is_one_of(call->method, {"backward", "step"});
  }
  const bool is_step = steps || function->callers.empty();
  return !returns && !is_step;
}

// args.loss_buffer_size
bool is_setting(const Expr* expr) {
  while (expr->kind == ExprKind::attribute) expr = expr->children()[0];
  return expr->kind == ExprKind::name &&
         contains_any(expr->word(), {"arg", "opt", "cfg", "conf", "hparams"}) &&
         !contains(expr->word(), "optim");
}

// torch.tensor(time.time() - start): how long a step took is for the log.
bool holds_time(const Expr* expr) {
  return any_inside(resolved(expr), [&](const Expr& part) {
    return part.call() != nullptr &&
           is_one_of(part.call()->name, {"time.time", "time.perf_counter"});
  });
}

bool is_logged_value(const Expr* expr) {
  if (expr->kind == ExprKind::attribute && is_setting(expr)) return false;
  const Type& type = *expr->type;
  if (type.is(TypeKind::loss) || type.is(TypeKind::module) || type.is(TypeKind::function)) {
    return false;
  }
  bool found = holds_numbers(expr) || has_metric_keys(expr) || holds_time(expr);
  visit(expr, [&](const Expr& part) {
    found = found || is_metric_word(last_name(&part));
    return !found;
  });
  return found;
}

bool is_in_module(const Call& call) {
  const ClassDef* def = call.function == nullptr ? nullptr : call.function->class_def;
  return def != nullptr && (def->is_module || def->is_autograd_function) &&
         !def->is_lightning_module;
}

void add_names(const Expr* target, std::vector<std::string_view>& names) {
  visit(target, [&](const Expr& part) {
    if (part.kind == ExprKind::name) names.push_back(part.word());
    return part.kind != ExprKind::subscript && part.kind != ExprKind::attribute;
  });
}

bool uses_any(const Expr* expr, const std::vector<std::string_view>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return uses_variable(expr, name); });
}

// `if torch.isnan(reduced).any(): continue`: what is exchanged decides on the update.
bool decides_on_step(const Statement& statement, const std::vector<std::string_view>& names) {
  return statement.kind == StatementKind::if_ && !statement.body.empty() &&
         statement.body.back()->kind == StatementKind::continue_ &&
         uses_any(statement.value, names);
}

bool reaches_backward(const Call& exchange, int depth);

// `return loss, correct`, where a caller runs backward on what it gets.
bool is_given_to_backward(const Call& exchange, int depth) {
  constexpr int kMaxGivers = 2;
  if (exchange.function == nullptr || depth >= kMaxGivers) return false;
  const auto& callers = exchange.function->callers;
  return std::any_of(callers.begin(), callers.end(), [&](const Call* caller) {
    return !caller->arguments.empty() && reaches_backward(*caller, depth + 1);
  });
}

// Whether what the call gives, or changes in place, reaches a backward below in the same function,
// or in one that gets it from there.
bool reaches_backward(const Call& exchange, int depth) {
  if (exchange.statement->kind == StatementKind::return_) return false;
  std::vector<std::string_view> names;
  if (exchange.statement->target != nullptr) {
    add_names(exchange.statement->target, names);
  } else {
    add_names(exchange.arguments.front().value, names);
  }
  // `if distributed: reduced = reduce(loss)` goes on behind the if.
  const Statement* last = exchange.statement;
  while (last->parent != nullptr && last->parent->kind == StatementKind::if_) last = last->parent;
  for (const Statement* next : after(*last)) {
    if (decides_on_step(*next, names)) return true;
  }
  for (const Statement* next : after(*exchange.statement)) {
    const bool returns = next->kind == StatementKind::return_ && uses_any(next->value, names);
    if (returns && is_given_to_backward(exchange, depth)) return true;
    for (const Call* call : calls_inside(*next)) {
      const bool is_backward = call->method == "backward" || call->method == "scale";
      if (is_backward && uses_any(call->expr, names)) return true;
    }
    const bool derives = next->kind == StatementKind::assignment && uses_any(next->value, names);
    if (derives) add_names(next->target, names);
  }
  return false;
}

// In `def evaluate(…):` with a block under no_grad, which a loop over the whole data calls in each
// pass: once per evaluation.
bool is_of_evaluation(const Call& call) {
  const FunctionDef* function = call.function;
  if (function == nullptr || !is_named_evaluation(*function)) return false;
  return std::ranges::any_of(function->calls, [](const Call* one) {
    return is_one_of(one->name, {"torch.no_grad", "torch.inference_mode"});
  });
}

bool is_candidate(const SourceFacts& facts, const Call& call, Exchanging& known) {
  if (call.arguments.empty() || is_in_module(call)) return false;  // first what is quick to tell
  if (is_of_evaluation(call)) return false;
  const bool exchanges_itself =
      is_exchange(call) || (call.target != nullptr && exchanges(*call.target, known));
  if (!exchanges_itself) return false;
  const bool is_kept =
      call.target != nullptr ? keeps_for_training(call.target) : keeps_for_training(call.function);
  if (is_kept) return false;
  const bool is_logged =
      becomes_number(call) ||
      std::any_of(call.arguments.begin(), call.arguments.end(),
                  [](const Argument& argument) { return is_logged_value(argument.value); });
  return is_logged && is_in_step_loop(facts, call) && !reaches_backward(call, 0);
}

constexpr std::int64_t kMany = 4;

// One exchange of a number beside the gradients' takes some 20 to 100 us. It costs more where the
// host waits for what comes of it.
bool waits_for_result(const SourceFacts& facts, const Call& call) {
  const bool reads = call.target != nullptr &&
                     any_call_below(*call.target, kMaxCallDepth,
                                    [&](const Call& inner) { return waits_itself(facts, inner); });
  return reads || becomes_number(call) || call.method == "all_gather_object";
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<bool> may_cost;  // of each
  Exchanging known;
  for (const auto& file : facts.files) {
    std::unordered_map<const Statement*, std::size_t> by_place;
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      if (!is_candidate(facts, *call, known)) continue;
      const Statement* place = place_of_work(*call->statement);
      const auto [at, is_new] = by_place.try_emplace(place, findings.size());
      if (!is_new) {
        ++findings[at->second].count;
        continue;
      }
      Finding finding = finding_at(
          *call,
          fmt::format("`{}` exchanges a value between all GPUs in every step only to log it",
                      code_text(*file, call->expr)),
          {"Add the value up on each GPU, and exchange it every 50 steps or so when it is logged",
           Exactness::bit_exact});
      finding.evidence = {
          Evidence::found("no backward below uses the result"),
          Evidence::published(
              "PyTorch performance tuning guide, Avoid unnecessary CPU-GPU synchronization")};
      const auto loops = step_loops_of(facts, *call->statement);
      const bool stays =
          std::ranges::any_of(loops, [&](const Loop* loop) { return waits_anyway(facts, *loop); });
      const bool waits = waits_for_result(facts, *call);
      if (waits) add_step(facts, *call->statement, finding);
      finding.own_level = Level::info;
      findings.push_back(std::move(finding));
      may_cost.push_back(!stays);
    }
  }
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].count >= kMany && may_cost[i]) findings[i].own_level = Level::advice;
  }
  return findings;
}

}  // namespace logging_reduced_every_step

extern const Rule distributed_logging_reduced_every_step{
    .id = "distributed/logging-reduced-every-step",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Logged value is all-reduced in every step",
    .doc = logging_reduced_every_step::kDoc,
    .in_scripts = logging_reduced_every_step::find};

}  // namespace rooftile
