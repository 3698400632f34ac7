#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/words.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace several_gpus_per_process {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel` with a literal `device_ids` of more than one GPU, or on CUDA with none
and no `set_device` in the program.

## Why it costs time
Several GPUs in one process are driven by one Python thread, and PyTorch has taken this mode out.
Without a device per process, all processes work on GPU 0.

## How to fix
One process per GPU: `torch.cuda.set_device(local_rank)` first, then `device_ids=[local_rank]`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- A model that is spread over several devices itself.

## Evidence
- PyTorch documentation, `DistributedDataParallel`, device_ids.
)md";

using namespace source;

bool is_list_of_several(const Argument* devices) {
  return devices != nullptr && devices->value->kind == ExprKind::list &&
         devices->value->children().size() > 1;
}

bool is_plain_move(const Call* call) {
  return call != nullptr && call->method == "cuda" && call->arguments.empty();
}

// `self.net.cuda()` above `self.net = DistributedDataParallel(self.net)` in its block.
bool is_moved_above(const Call& call, const Expr& model) {
  const bool is_variable = model.kind == ExprKind::name || model.kind == ExprKind::attribute;
  if (!is_variable) return false;
  const std::string_view text = call.file->slice(model.range);
  return std::ranges::any_of(before(*call.statement), [&](const Statement* above) {
    const Call* moved = above->value == nullptr ? nullptr : above->value->call();
    return is_plain_move(moved) && moved->receiver != nullptr &&
           call.file->slice(moved->receiver->range) == text;
  });
}

// The model was moved by a plain `.cuda()`: to GPU 0 unless something sets the device.
bool is_on_default_gpu(const Call& call) {
  const Expr& given = *call.arguments.front().value;
  const Expr* model = resolved(&given);
  return is_plain_move(model == nullptr ? nullptr : model->call()) || is_moved_above(call, given);
}

bool chooses_device(const SourceFacts& facts, const File& file) {
  const auto programs = training_programs_of(facts, file);
  return std::any_of(programs.begin(), programs.end(), [](const Program* program) {
    return mentions(*program, {"CUDA_VISIBLE_DEVICES"}) ||
           std::any_of(program->files.begin(), program->files.end(), [](const File* one) {
             return has_any_text(*one, {"cuda.device(", "set_device"});
           });
  });
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"})) {
    if (call->arguments.empty() || call->unknown_arguments) continue;
    const Argument* devices = call->argument("device_ids", 1);
    const bool has_several = is_list_of_several(devices);
    const bool has_none =
        devices == nullptr && is_on_default_gpu(*call) && !chooses_device(facts, *call->file);
    if (!has_several && !has_none) continue;
    Finding finding = finding_at(
        *call,
        has_several
            ? fmt::format("one process drives the GPUs {}", code_text(*call->file, devices->value))
            : std::string("no device is chosen: all processes train on GPU 0"),
        {"Run one process per GPU: torch.cuda.set_device(local_rank), then "
         "device_ids=[local_rank]",
         Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::published("PyTorch documentation, DistributedDataParallel, device_ids")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace several_gpus_per_process

extern const Rule distributed_several_gpus_per_process{
    .id = "distributed/several-gpus-per-process",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "One process drives several GPUs under DDP",
    .doc = several_gpus_per_process::kDoc,
    .in_scripts = several_gpus_per_process::find};

}  // namespace rooftile
