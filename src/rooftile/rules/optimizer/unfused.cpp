#include <fmt/format.h>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {

namespace optimizer_unfused_in_trace {
std::vector<Finding> check(const RuleInput& input);
}

namespace optimizer_unfused_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a script: `torch.optim.Adam`, `AdamW` or `SGD` on the GPU without `fused=True`, in a program written for
  PyTorch 2.
- In a trace: the optimizer's kernels over lists of tensors (`multi_tensor_apply` of `torch._foreach_…`),
  where they take a twentieth of the step or more.

## Why it costs time
The default reads and writes weights, gradients and states once per operation; the fused kernel
does it once.

## How to fix
Pass `fused=True`.

## How the saving is estimated
From the bytes: by PyTorch's `_multi_tensor_adam`, Adam reads and writes 18 to 20 times the size of the
weights, fused it reads four times and writes three times: up to 0.65 of the time. SGD with momentum goes from 8 to
5: 0.35. Half the time is assumed likely for Adam, a quarter where the optimizer is not named; the low end is
half of that. From a script alone nothing is estimated.

## When not to
- Weights on the CPU, complex or integer weights.
- PyTorch 2.0.0 had a defect together with fp16 and `GradScaler`.

## Evidence
- PyTorch documentation, torch.optim, section "Algorithms".
)md";

using namespace source;

bool has_fused(std::string_view name) {
  return name == "torch.optim.Adam" || name == "torch.optim.AdamW" || name == "torch.optim.SGD";
}

// PyTorch 2.0 to 2.3 refuse weights that are moved after the optimizer is made.
bool has_weights_on_gpu(const Call& call) {
  const Argument* weights = call.argument("params", 0);
  return weights != nullptr && weights->value->type->on_gpu();
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.constructions(TypeKind::optimizer)) {
    if (!has_fused(call->name) || call->unknown_arguments) continue;
    if (call->argument("fused") != nullptr || call->argument("foreach") != nullptr) continue;
    const auto programs = training_programs_of(facts, *call->file);
    if (programs.empty() || !shows_pytorch_2(*programs.front())) continue;
    if (!is_reached_by_default(facts, *call)) continue;
    Fix fix{"Pass fused=True; the weights have to be on the GPU and in floating point",
            Exactness::exact_arithmetic};
    if (has_weights_on_gpu(*call)) add_edit(add_argument(*call, "fused", "True"), fix);
    Finding finding = finding_at(
        *call,
        fmt::format("{} runs a dozen kernels over all weights, fused it is one", call->method),
        std::move(fix));
    finding.evidence = {
        Evidence::published("fused is the fastest",
                            "PyTorch documentation, torch.optim, Algorithms"),
        Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace optimizer_unfused_rule

extern const Rule optimizer_unfused{.id = "optimizer/unfused",
                                    .level = Level::info,
                                    .level_in_traces = Level::advice,
                                    .cause = Cause::none,
                                    .summary = "Optimizer could run as one fused kernel",
                                    .doc = optimizer_unfused_rule::kDoc,
                                    .in_traces = optimizer_unfused_in_trace::check,
                                    .in_scripts = optimizer_unfused_rule::find};

}  // namespace rooftile
