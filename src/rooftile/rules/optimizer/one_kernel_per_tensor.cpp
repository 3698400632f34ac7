#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace optimizer_one_kernel_per_tensor_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
An optimizer of `torch.optim` on the GPU with `foreach=False` and without `fused=True`.

## Why it costs time
The loop implementation launches several small kernels for every weight tensor; a network has
hundreds. The multi-tensor one needs a few for all of them.

## How to fix
Remove the argument, or pass `fused=True` for Adam, AdamW and SGD.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- The multi-tensor implementation needs memory for a copy of the weights. Where that is the reason,
  say so in a comment with the word memory.
- Weights on the CPU.

## Evidence
- PyTorch documentation, torch.optim, section "Algorithms".
)md";

using namespace source;

// A comment on the call's lines that speaks of memory gives the reason.
bool is_explained(const Call& call) {
  const std::string_view text = call.file->text;
  const std::size_t end = std::min(text.find('\n', call.close_paren), text.size());
  const std::string_view lines = text.substr(call.expr->range.begin, end - call.expr->range.begin);
  const std::size_t comment = lines.find('#');
  return comment != std::string_view::npos &&
         lines.find("memory", comment) != std::string_view::npos;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.constructions(TypeKind::optimizer)) {
    const Argument* foreach_argument = call->argument("foreach");
    if (!call->name.starts_with("torch.optim.") || foreach_argument == nullptr) continue;
    if (!facts.argument(*call, "foreach").is_false() || is_explained(*call)) continue;
    if (facts.argument(*call, "fused").is_true() || !trains_on_gpu(facts, *call->file)) continue;
    if (!is_reached_by_default(facts, *call)) continue;
    Fix fix{"Remove foreach=False: on CUDA the default updates all tensors in a few kernels",
            Exactness::exact_arithmetic};
    add_edit(remove_argument(*call, *foreach_argument), fix);
    fix.safe = !fix.edits.empty();
    Finding finding = finding_at(
        *call,
        fmt::format("{} runs several kernels for each weight tensor: foreach is off", call->method),
        std::move(fix));
    finding.evidence = {
        "PyTorch documentation, torch.optim, Algorithms: for-loop, foreach and fused "
        "implementations; foreach is the default on CUDA"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace optimizer_one_kernel_per_tensor_rule

extern const Rule optimizer_one_kernel_per_tensor{
    .id = "optimizer/one-kernel-per-tensor",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Optimizer updates one tensor at a time (foreach=False)",
    .doc = optimizer_one_kernel_per_tensor_rule::kDoc,
    .in_scripts = optimizer_one_kernel_per_tensor_rule::find};

}  // namespace rooftile
