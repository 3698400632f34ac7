#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace tensor_from_list_each_step {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.tensor(list, device=...)` with a GPU in the hot path.

## Why it costs time
The values are copied from unpinned memory, for which the host waits.

## How to fix
Make it once before the loop, or compute it on the device with `torch.arange`, `torch.full` and
the like.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The values come from the host in each step by nature.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : training_calls(facts, {"torch.tensor", "torch.as_tensor"})) {
    const Argument* device = call->argument("device");
    if (device == nullptr || !is_gpu_device(facts, device->value)) continue;
    const Expr* values = call->arguments.front().value;
    const bool is_list = values->kind == ExprKind::list ||
                         values->kind == ExprKind::comprehension ||
                         values->type->is(TypeKind::container);
    if (!is_list || !is_hot(facts, *call)) continue;
    Finding finding = finding_at(
        *call,
        fmt::format("`{}` copies a Python list to the GPU in every step, and the host waits for it",
                    code_text(*call->file, call->expr)),
        {"Make it once before the loop, or compute it on the GPU", Exactness::bit_exact});
    finding.evidence = {Evidence::published(
        "copies from unpinned memory block the host",
        "PyTorch tutorial, A guide on good usage of non_blocking and pin_memory()")};
    add_step(facts, *call->statement, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace tensor_from_list_each_step

extern const Rule launch_tensor_from_list_each_step{
    .id = "launch/tensor-from-list-each-step",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Tensor is built on the GPU from a Python list in every step",
    .doc = tensor_from_list_each_step::kDoc,
    .in_scripts = tensor_from_list_each_step::find};

}  // namespace rooftile
