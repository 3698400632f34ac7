#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/script_rule.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace data_parallel {

constexpr std::string_view kDoc = R"md(
## What it finds
`nn.DataParallel(model)` or `data_parallel` on a model that is trained.

## Why it costs time
One process drives all GPUs: it copies the weights to each of them in every step, gathers the
outputs on one, and Python launches all kernels under one lock.

## How to fix
`DistributedDataParallel` with one process per GPU: `torchrun --nproc_per_node=8 train.py`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Only evaluation, or loading of checkpoints saved under it.
- The same program offers DistributedDataParallel.

## Evidence
- PyTorch performance tuning guide, "Use efficient data-parallel backend".
)md";

using namespace source;

bool offers_ddp(const Program& program) {
  if (mentions(program, {"DistributedDataParallel", "DDP"})) return true;
  // Processes alone exchange no gradients.
  return mentions(program, {"init_process_group"}) &&
         mentions(program, {"all_reduce", "average_gradients", "FSDP", "FullyShardedDataParallel",
                            "deepspeed", "horovod", "hvd", "apex", "accelerate"});
}

bool trains_with_it(const SourceFacts& facts, const Call& call) {
  const auto programs = training_programs_of(facts, *call.file);
  const bool is_offered = std::any_of(programs.begin(), programs.end(),
                                      [](const Program* program) { return offers_ddp(*program); });
  return !is_offered && std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
    return call.statement != nullptr && runs_in(facts, *program, *call.statement);
  });
}

// A helper that no given file names: a copy for sampling that nobody asks for.
bool is_in_unused_helper(const SourceFacts& facts, const Call& call) {
  const FunctionDef* function = call.function;
  if (function == nullptr || !function->callers.empty() || function->name.starts_with("__")) {
    return false;
  }
  const bool is_called_by_library =
      function->class_def != nullptr && function->class_def->is_module;
  const bool has_entry = std::ranges::any_of(
      facts.programs_of(*call.file), [](const auto* program) { return program->entry != nullptr; });
  if (is_called_by_library || !has_entry || !function->decorators.empty()) return false;
  return std::ranges::none_of(facts.files, [&](const auto& file) {
    const std::size_t first = file->text.find(function->name);
    const bool is_own = file.get() == call.file;
    return first != std::string::npos &&
           (!is_own || file->text.find(function->name, first + 1) != std::string::npos);
  });
}

// def eval(self): model = nn.DataParallel(self.model); …
bool is_in_evaluation(const Call& call) {
  if (call.function == nullptr || call.statement == nullptr) return false;
  const Expr* target = call.statement->target;
  const std::string_view name = call.function->name;
  const bool is_named =
      is_one_of(name, {"eval", "evaluate", "test", "validate", "predict", "infer", "inference",
                       "sample", "generate"}) ||
      (contains_any(name, {"evaluator", "inference", "evaluation"}) && !contains(name, "train"));
  // self.model stays wrapped for whoever comes next.
  return is_named && target != nullptr && target->kind == ExprKind::name;
}

// `if args.do_test: model = nn.DataParallel(model)`
bool is_for_testing(const SourceFacts& facts, const Call& call) {
  const auto contexts = facts.contexts(call);
  return std::ranges::all_of(contexts, [](const Context& context) {
    return std::ranges::any_of(context.guards, [](const Guard& guard) {
      return !guard.negated && guard.expr != nullptr &&
             is_one_of(last_name(guard.expr), {"do_test", "do_eval", "do_predict", "do_inference",
                                               "test_only", "eval_only", "evaluate", "inference"});
    });
  });
}

bool switches_gradients_off(const Expr* manager) {
  const Call* call = manager == nullptr ? nullptr : manager->call;
  return call != nullptr && (call->method == "no_grad" || call->method == "inference_mode");
}

// A network whose forward runs under no_grad from end to end: nobody trains it.
bool never_records(const Type& type) {
  const FunctionDef* forward =
      type.class_def == nullptr ? nullptr : type.class_def->method("forward");
  if (forward == nullptr || forward->body.empty()) return false;
  if (std::ranges::any_of(forward->decorators, switches_gradients_off)) return true;
  return std::ranges::all_of(forward->body, [](const Statement* statement) {
    const bool is_text = statement->kind == StatementKind::expression;
    return is_text || (statement->kind == StatementKind::with_ && !statement->items.empty() &&
                       switches_gradients_off(statement->items.front().context));
  });
}

// `model = DataParallel(model)`, weights loaded, `model = model.module`: what runs is not wrapped.
bool is_unwrapped_again(const Call& call) {
  const Statement* wrap = call.statement;
  if (wrap == nullptr || wrap->target == nullptr || wrap->target->kind != ExprKind::name) {
    return false;
  }
  return std::ranges::any_of(after(*wrap), [&](const Statement* each) {
    const bool rebinds = each->kind == StatementKind::assignment && each->word == "=" &&
                         each->target != nullptr && each->target->kind == ExprKind::name &&
                         each->target->word == wrap->target->word && each->value != nullptr;
    const Expr* value = rebinds ? each->value : nullptr;
    while (value != nullptr && value->call != nullptr) value = value->call->receiver;
    return value != nullptr && value->kind == ExprKind::attribute && value->word == "module" &&
           last_name(value->children[0]) == wrap->target->word;
  });
}

// A class of the project whose calls, of which there are some, all run with gradients off.
bool only_evaluates(const SourceFacts& facts, const Type& type) {
  if (type.class_def == nullptr) return false;
  bool is_called = false;
  for (const Call* call : facts.calls("torch.nn.Module.__call__")) {
    if (call->expr->children.empty() || call->statement == nullptr) continue;
    if (call->expr->children[0]->type->class_def != type.class_def) continue;
    const auto contexts = facts.contexts(*call);
    is_called = true;
    if (!std::ranges::all_of(contexts, &Context::gradients_off)) return false;
  }
  return is_called;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       launched_calls(facts, {"torch.nn.DataParallel", "torch.nn.parallel.data_parallel"})) {
    if (call->arguments.empty() || !trains_with_it(facts, *call)) continue;
    // The function splits one pass; outside of training it only samples.
    if (call->method == "data_parallel" && !is_hot(facts, *call)) continue;
    const Expr* model = call->arguments.front().value;
    if (model->type->frozen || never_records(*model->type)) continue;
    if (is_in_unused_helper(facts, *call) || is_unwrapped_again(*call)) continue;
    if (is_in_evaluation(*call) || is_for_testing(facts, *call)) continue;
    if (only_evaluates(facts, *model->type)) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("{} is trained under DataParallel: one process copies the weights to all GPUs "
                    "in every step",
                    code_text(*call->file, model)),
        {"Use DistributedDataParallel with one process per GPU (torchrun --nproc_per_node=8), "
         "which only exchanges gradients",
         Exactness::exact_arithmetic});
    finding.evidence = {"PyTorch performance tuning guide, Use efficient data-parallel backend"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> check(const RuleInput& input) { return check_scripts(input, find); }

}  // namespace data_parallel

extern const Rule distributed_data_parallel{.id = "distributed/data-parallel",
                                            .level = Level::warning,
                                            .cause = Cause::none,
                                            .summary = "a model is trained under DataParallel",
                                            .doc = data_parallel::kDoc,
                                            .check = data_parallel::check};

}  // namespace rooftile
