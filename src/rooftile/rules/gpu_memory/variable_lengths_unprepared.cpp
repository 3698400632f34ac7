#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace variable_lengths_unprepared {

constexpr std::string_view kDoc = R"md(
## What it finds
A collate function of a training loader that pads to the longest sample of the batch
(`pad_sequence`, `padding=True`), with no step at the maximum length before the loop.

## Why it costs time
A batch longer than all before does not fit the cached blocks: memory is allocated again, and the
old blocks stay as fragments.

## How to fix
One forward and backward at the maximum length before the loop, without an optimizer step; or pad
to a few fixed lengths.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Lengths that are sorted into buckets.

## Evidence
- PyTorch performance tuning guide, "Pre-allocate memory in case of variable input length".
)md";

using namespace source;

const Call* padding_call(const SourceFacts& facts, const FunctionDef& collate) {
  for (const Call* call : collate.calls) {
    if (call->name == "torch.nn.utils.rnn.pad_sequence") return call;
    const Value padding = facts.argument(*call, "padding");
    if (call->argument("padding") != nullptr &&
        (padding.is("longest") || (padding.kind == ValueKind::boolean && padding.is_true()))) {
      return call;
    }
  }
  return nullptr;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Call* loader : training_loaders(facts)) {
    const Argument* given = loader->argument("collate_fn", 6);
    const FunctionDef* collate = given == nullptr ? nullptr : given->value->type->function;
    if (collate == nullptr || is_for_evaluation(facts, *loader)) continue;
    const Call* call = padding_call(facts, *collate);
    if (call == nullptr || !seen.insert(call).second) continue;
    Finding finding = finding_at(
        *call, "batches are padded to their longest sample: each new maximum allocates again",
        {"Run one forward and backward at the maximum length before the loop",
         Exactness::bit_exact});
    finding.evidence = {
        fmt::format("loader at {}", place_text(*loader, *call->file)),
        "PyTorch performance tuning guide, Pre-allocate memory in case of variable input length"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace variable_lengths_unprepared

extern const Rule gpu_memory_variable_lengths_unprepared{
    .id = "gpu_memory/variable-lengths-unprepared",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Batches of growing length make the allocator reallocate",
    .doc = variable_lengths_unprepared::kDoc,
    .in_scripts = variable_lengths_unprepared::find};

}  // namespace rooftile
