#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace pinned_inside_the_loop {

constexpr std::string_view kDoc = R"md(
## What it finds
`x.pin_memory()` in a training loop directly before the copy to the GPU.

## Why it costs time
Pinning copies the data on the main thread and allocates pinned memory: together with the copy it
takes longer than a plain `.to(device)`.

## How to fix
`pin_memory=True` in the DataLoader, whose thread pins while the GPU computes.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- The pinned tensor is kept and used again.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()":
  `tensor.pin_memory().to(device)` is slower than `to(device)`.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : facts.method_calls("pin_memory")) {
    const Type& type = call->receiver_type();
    const bool may_be_tensor = type.is(TypeKind::tensor) || type.is(TypeKind::unknown);
    if (call->receiver == nullptr || !may_be_tensor || !is_in_step_loop(facts, *call)) continue;
    const std::string name = receiver_text(*call);
    Finding finding = finding_at(
        *call,
        fmt::format("{} is pinned on the main thread in every step, which takes longer than the "
                    "copy it speeds up",
                    name),
        {"Set pin_memory=True in the DataLoader, or copy without pinning", Exactness::bit_exact});
    finding.evidence = {Evidence::published(
        "PyTorch tutorial, A guide on good usage of non_blocking and pin_memory()")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace pinned_inside_the_loop

extern const Rule input_pipeline_pinned_inside_the_loop{
    .id = "input_pipeline/pinned-inside-the-loop",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Batch is pinned by hand inside the step",
    .doc = pinned_inside_the_loop::kDoc,
    .in_scripts = pinned_inside_the_loop::find};

}  // namespace rooftile
