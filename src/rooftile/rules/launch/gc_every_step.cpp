#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gc_every_step {

constexpr std::string_view kDoc = R"md(
## What it finds
`gc.collect()` on each training step.

## Why it costs time
A full collection walks all Python objects, tens of milliseconds in a program with PyTorch loaded.
Tensors are freed by reference counting without it.

## How to fix
Remove it, or call it once per epoch. Where cycles are the reason, break them.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- At the end of an epoch.
- While handling an out-of-memory error.

## Evidence
- Python documentation, module gc; PyTorch FAQ, "My GPU memory is not freed properly".
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"gc.collect"})) {
    if (!is_in_step_loop(facts, *call)) continue;
    Fix fix{"Remove it, or call it once per epoch: tensors are freed by their reference counts",
            Exactness::bit_exact};
    if (call->statement->value == call->expr) add_edit(remove_statement(*call->statement), fix);
    fix.safe = !fix.edits.empty();
    Finding finding =
        finding_at(*call, "gc.collect() walks all Python objects in every step", std::move(fix));
    finding.evidence = {Evidence::published("a full collection runs over all objects",
                                            "Python documentation, module gc")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gc_every_step

extern const Rule launch_gc_every_step{.id = "launch/gc-every-step",
                                       .level = Level::advice,
                                       .cause = Cause::none,
                                       .summary = "Garbage collector runs in every step",
                                       .doc = gc_every_step::kDoc,
                                       .in_scripts = gc_every_step::find};

}  // namespace rooftile
