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

// What a variable that holds the wrapped model is used for.
struct Uses {
  bool runs = false;     // model(x), each time with gradients off
  bool escapes = false;  // it runs with gradients on, an optimizer takes it, or it is lost sight of
};

void follow(const SourceFacts& facts, const File& file, ByteRange scope, std::string_view name,
            int levels, Uses& uses);

// `evaluate(model, loader)`: what the function does with it.
void follow_argument(const SourceFacts& facts, const Call& call, const Expr& given, int levels,
                     Uses& uses) {
  const FunctionDef* target = call.target;
  if (target == nullptr || target->class_def != nullptr) {
    // Another branch wraps the model that it made.
    uses.escapes = uses.escapes || !is_one_of(call.name, {"print", "len", "isinstance", "hasattr",
                                                          "type", "torch.nn.DataParallel"});
    return;
  }
  const auto argument = std::ranges::find(call.arguments, &given, &Argument::value);
  const bool is_known = argument != call.arguments.end() && !argument->unpacked && levels > 0;
  std::string_view name = is_known ? argument->name : "";
  if (is_known && name.empty() && argument->position < target->parameters.size()) {
    name = target->parameters[argument->position].name;
  }
  if (name.empty()) {
    uses.escapes = true;
    return;
  }
  follow(facts, *target->file, target->statement->range, name, levels - 1, uses);
}

// `SGD(model.parameters())`; a loop over the parameters freezes them or counts them.
bool hands_on_weights(const Expr& attribute) {
  if (attribute.word != "parameters" && attribute.word != "named_parameters") return false;
  if (attribute.statement != nullptr && attribute.statement->kind == StatementKind::for_) {
    return false;
  }
  for (const Expr* outer = attribute.parent; outer != nullptr; outer = outer->parent) {
    if (outer->kind == ExprKind::comprehension) return false;
  }
  return true;
}

void note_use(const SourceFacts& facts, const Expr& name, int levels, Uses& uses) {
  const Expr* outer = name.parent;
  const Statement* statement = name.statement;
  const Expr* target = statement == nullptr ? nullptr : statement->target;
  const bool is_set = target != nullptr && target->kind == ExprKind::name &&
                      target->word == name.word && statement->kind == StatementKind::assignment;
  if (outer == nullptr) {
    uses.escapes = uses.escapes || target != &name;
  } else if (outer->kind == ExprKind::attribute) {
    uses.escapes = uses.escapes || outer->word == "train" || hands_on_weights(*outer);
  } else if (outer->call != nullptr && outer->children[0] == &name) {
    uses.runs = true;
    const auto contexts = facts.contexts(*outer->call);
    uses.escapes = uses.escapes || !std::ranges::all_of(contexts, &Context::gradients_off);
  } else if (outer->call != nullptr) {
    follow_argument(facts, *outer->call, name, levels, uses);
  } else {
    // `model = model.cuda() if cuda else model`
    uses.escapes = uses.escapes || (outer->kind != ExprKind::comparison && !is_set);
  }
}

// The uses of a plain variable within a range of the file.
void follow(const SourceFacts& facts, const File& file, ByteRange scope, std::string_view name,
            int levels, Uses& uses) {
  for (const Statement* statement : file.statements) {
    const std::uint32_t at = statement->range.begin;
    if (at < scope.begin || at >= scope.end || uses.escapes) continue;
    for_own_expressions(*statement, [&](const Expr* expr) {
      visit(expr, [&](const Expr& part) {
        const bool is_use = part.kind == ExprKind::name && part.word == name;
        if (is_use) note_use(facts, part, levels, uses);
        return !is_use;
      });
    });
  }
}

// `teacher = nn.DataParallel(teacher)` of a variable that only runs under no_grad from there on: a
// teacher, a frozen backbone, a model for evaluation.
bool runs_without_gradients(const SourceFacts& facts, const Call& call) {
  const Statement* wrap = call.statement;
  const bool is_plain = wrap != nullptr && wrap->kind == StatementKind::assignment &&
                        wrap->target != nullptr && wrap->target->kind == ExprKind::name;
  if (!is_plain) return false;
  const std::uint32_t end = call.function != nullptr
                                ? call.function->statement->range.end
                                : static_cast<std::uint32_t>(call.file->text.size());
  Uses uses;
  follow(facts, *call.file, {wrap->range.end, end}, wrap->target->word, kMaxCallDepth, uses);
  // A variable of a function that is neither called nor handed on only took the weights of a file.
  return !uses.escapes && (uses.runs || call.function != nullptr);
}

// model_test, ema_model, net_copy: a second copy beside the one that is trained.
bool is_copy(const Call& call, const Expr& model) {
  const auto says = [](std::string_view name) {
    std::size_t begin = 0;
    while (begin < name.size()) {
      const std::size_t end = std::min(name.find('_', begin), name.size());
      if (is_one_of(name.substr(begin, end - begin), {"test", "eval", "ema", "copy"})) return true;
      begin = end + 1;
    }
    return false;
  };
  const Expr* target = call.statement == nullptr ? nullptr : call.statement->target;
  return says(last_name(&model)) || says(last_name(target));
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       launched_calls(facts, {"torch.nn.DataParallel", "torch.nn.parallel.data_parallel"})) {
    if (call->arguments.empty() || !trains_with_it(facts, *call)) continue;
    // The function splits one pass; outside of training it only samples.
    if (call->method == "data_parallel" && !is_hot(facts, *call)) continue;
    const Expr* model = call->arguments.front().value;
    if (is_copy(*call, *model)) continue;
    if (model->type->frozen || never_records(*model->type)) continue;
    if (is_in_unused_helper(facts, *call) || is_unwrapped_again(*call)) continue;
    if (is_in_evaluation(*call) || is_for_testing(facts, *call)) continue;
    if (only_evaluates(facts, *model->type) || runs_without_gradients(facts, *call)) continue;
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
