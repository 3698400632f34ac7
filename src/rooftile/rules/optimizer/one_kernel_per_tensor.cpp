#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {

namespace optimizer_one_kernel_per_tensor_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace optimizer_one_kernel_per_tensor_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a script: an optimizer of `torch.optim` on the GPU with `foreach=False` and without `fused=True`.
- In a trace: an optimizer step that launches kernels for each parameter by itself: many short kernels in the
  ranges called `Optimizer.step`, none of them over lists of tensors (`multi_tensor_apply`, fused).

## Why it costs time
A model has hundreds of parameters and the formula several operations: thousands of launches, each
of which costs the host some microseconds and the GPU the start of a kernel. The multi-tensor implementation
needs a few for all of them.

## How to fix
`foreach=True` (the default on CUDA since PyTorch 2.0), or `fused=True` for Adam, AdamW and SGD, which does
the whole formula in one pass over the memory.

## How the saving is estimated
From a trace. Likely: the GPU's idle time in the step of the optimizer or, where that is more, what a replay of
the recording saves when launching the optimizer takes the host a tenth: a host that is ahead during the
optimizer is late afterwards. High: with the time that any kernel takes however small it is. Low: half of
the idle time in the optimizer. The traffic of the formula itself is not counted as saved. From a script alone
nothing is estimated.

## When not to
- The multi-tensor implementation needs memory for a copy of the weights. Where that is the reason,
  say so in a comment with the word memory.
- Optimizers of other libraries may have neither option.
- `fused=True` needs floating-point parameters on the GPU.

## Evidence
- PyTorch `torch/profiler/_pattern_matcher.py`, OptimizerSingleTensorPattern.
- PyTorch documentation, torch.optim, "Algorithms": fused implementations are typically the fastest,
  then foreach, then the loop over parameters.
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
    finding.evidence = {Evidence::published(
        "for-loop, foreach and fused implementations; foreach is the default on CUDA",
        "PyTorch documentation, torch.optim, Algorithms")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace optimizer_one_kernel_per_tensor_rule

extern const Rule optimizer_one_kernel_per_tensor{
    .id = "optimizer/one-kernel-per-tensor",
    .former_id = "optimizer/single-tensor",
    .level = Level::advice,
    .level_in_traces = Level::warning,
    .cause = Cause::none,
    .summary = "Optimizer updates one tensor at a time",
    .doc = optimizer_one_kernel_per_tensor_rule::kDoc,
    .in_traces = optimizer_one_kernel_per_tensor_in_trace::check,
    .in_scripts = optimizer_one_kernel_per_tensor_rule::find,
    .costs_elsewhere = true};

}  // namespace rooftile
