#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/evaluated_models.h"
#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/unowned_networks.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/flow/sources.h"
#include "rooftile/script/reach/path.h"

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
- No training step is seen to run what is wrapped: evaluation, loading of checkpoints, copies.
- The same program offers DistributedDataParallel.
- Nothing speaks of several GPUs (`device_ids`, `device_count() > 1`, the documented commands): information.
- The documented commands all make one GPU visible (`CUDA_VISIBLE_DEVICES=0`): information.
- A step that calls `torch.autograd.grad`, whose results DDP does not exchange: information.

## Evidence
- PyTorch performance tuning guide, "Use efficient data-parallel backend".
)md";

using namespace source;

// In a comment or in a text of the line: help="for DDP, do not set".
bool is_only_told(std::string_view before) {
  return contains(before, "#") || std::ranges::count(before, '"') % 2 == 1 ||
         std::ranges::count(before, '\'') % 2 == 1;
}

// Whether a line names the class to use it: an import or a test of a model's type offers nothing.
bool uses_ddp(const File& file) {
  if (!mentions(file, {"DistributedDataParallel", "DDP"})) return false;
  const std::string code = code_of(file);
  const std::string_view text = code;
  for (const std::string_view word : {"DistributedDataParallel", "DDP"}) {
    for (std::size_t at = find_in_text(text, word); at != std::string_view::npos;
         at = find_in_text(text, word, at + word.size())) {
      const std::size_t begin = text.rfind('\n', at) + 1;
      const std::string_view line = text.substr(begin, text.find('\n', at) - begin);
      const bool is_told = is_only_told(line.substr(0, at - begin));
      if (!is_told && !contains_any(line, {"isinstance", "import ", "type(", "__class__"})) {
        return true;
      }
    }
  }
  return false;
}

bool offers_ddp(const Program& program) {
  if (std::ranges::any_of(program.files, [](const File* file) { return uses_ddp(*file); })) {
    return true;
  }
  // Processes alone exchange no gradients.
  return mentions(program, {"init_process_group"}) &&
         mentions(program, {"all_reduce", "average_gradients", "FSDP", "FullyShardedDataParallel",
                            "deepspeed", "horovod", "hvd", "apex", "accelerate"});
}

// Gradients that a step asks for itself, `autograd.grad(loss, weights)`, DDP exchanges none of.
bool takes_gradients(const SourceFacts& facts, const Call& call) {
  return std::ranges::any_of(
      facts.calls({"torch.autograd.grad", "torch.func.grad"}), [&](const Call* grad) {
        return is_hot(facts, *grad) &&
               std::ranges::any_of(training_programs_of(facts, *call.file),
                                   [&](const auto* one) { return one->has(*grad->file); });
      });
}

bool trains_with_it(const SourceFacts& facts, const Call& call) {
  const auto programs = training_programs_of(facts, *call.file);
  const bool is_offered = std::any_of(programs.begin(), programs.end(),
                                      [](const Program* program) { return offers_ddp(*program); });
  return !is_offered && std::any_of(programs.begin(), programs.end(), [&](const Program* program) {
    return runs_in(facts, *program, *call.statement);
  });
}

// `if torch.cuda.device_count() > 1:`, `if args.multi_gpu:`
bool asks_for_several(const Guard& guard) {
  if (guard.expr == nullptr || guard.negated || guard.statement == nullptr) return false;
  const std::string asked = lower(guard.statement->file->slice(guard.expr->range));
  return contains_any(asked, {"device_count", "gpu", "parallel", "world"});
}

// Several GPUs are named, asked for or documented: on one GPU the wrapper copies nothing.
bool is_for_several(const SourceFacts& facts, const Call& call) {
  const Argument* ids = call.argument("device_ids", 1);
  const Expr* list = ids == nullptr ? nullptr : resolved(ids->value);
  if (list != nullptr && list->kind != ExprKind::none) {
    return list->kind != ExprKind::list || list->children().size() > 1;
  }
  return is_started_on_several_gpus(facts, *call.file) ||
         std::ranges::any_of(path_to(facts, call), [](const source::PathStep& step) {
           return asks_for_several(step.guard);
         });
}

// The call may run what the wrapper made, also moved or switched.
bool may_run(const SourceFacts& facts, const Call& call, const Call& wrap) {
  using script::SourceStep;
  return script::find_source(facts, *call.expr->children().front(), [&](const Expr& part) {
    if (&part == wrap.expr) return SourceStep::found;
    if (part.kind == ExprKind::attribute && part.word() == "module") return SourceStep::stop;
    if (part.call() == nullptr) return SourceStep::go_on;
    const bool is_moved = is_one_of(part.call()->method, {"cuda", "to", "float", "train"});
    if (is_moved) return SourceStep::receiver;
    return part.call()->target != nullptr ? SourceStep::go_on : SourceStep::stop;
  });
}

// Whether a training step of its programs runs what is wrapped with gradients on, and may train it.
bool is_trained(const SourceFacts& facts, const Call& wrap) {
  const Type& model = *wrap.arguments.front().value->type;
  const bool is_library_loss = model.is(TypeKind::loss) && model.class_def == nullptr;
  if (is_library_loss || has_no_weights(model)) return false;
  const auto programs = training_programs_of(facts, *wrap.file);
  return std::ranges::any_of(facts.calls("torch.nn.Module.__call__"), [&](const Call* call) {
    const bool is_near = std::ranges::any_of(
        programs, [&](const Program* program) { return program->has(*call->file); });
    return is_near && is_hot(facts, *call) && !without_gradients(facts, *call) &&
           may_run(facts, *call, wrap) && !is_in_no_optimizer(facts, *call);
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       launched_calls(facts, {"torch.nn.DataParallel", "torch.nn.parallel.data_parallel"})) {
    if (call->arguments.empty() || !trains_with_it(facts, *call)) continue;
    // The function splits one pass; outside of training it only samples.
    if (call->method == "data_parallel" && !is_hot(facts, *call)) continue;
    const Expr* model = call->arguments.front().value;
    if (call->method != "data_parallel" && !is_trained(facts, *call)) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("{} is trained under DataParallel: one process copies the weights to all GPUs "
                    "in every step",
                    code_text(*call->file, model)),
        {fmt::format(
             "Use DistributedDataParallel with one process per GPU ({} "
             "--nproc_per_node=8), which only exchanges gradients",
             facts.runs_before({1, 10}) ? "python -m torch.distributed.launch" : "torchrun"),
         Exactness::exact_arithmetic});
    if (takes_gradients(facts, *call)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(
          Evidence::to_check("the step calls autograd.grad, whose results DDP does not exchange"));
    }
    if (is_started_on_one_gpu(facts, *call->file)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(
          Evidence::found("the documented commands make one GPU visible: nothing is copied there"));
    }
    if (!is_for_several(facts, *call)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(
          Evidence::found("nothing says that there are several GPUs: on one nothing is copied"));
    }
    finding.evidence.push_back(Evidence::published(
        "PyTorch performance tuning guide, Use efficient data-parallel backend"));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace data_parallel

extern const Rule distributed_data_parallel{.id = "distributed/data-parallel",
                                            .level = Level::warning,
                                            .cause = Cause::none,
                                            .typical = Typical::half,
                                            .summary = "Model is trained under DataParallel",
                                            .doc = data_parallel::kDoc,
                                            .in_scripts = data_parallel::find};

}  // namespace rooftile
