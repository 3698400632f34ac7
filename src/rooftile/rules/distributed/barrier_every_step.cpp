#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/analysis/source/step_waits.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace barrier_every_step {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.distributed.barrier()` or `accelerator.wait_for_everyone()` on each training step.

## Why it costs time
The processes wait for the slowest one and for the GPU. The exchange of gradients keeps them
together without it.

## How to fix
Remove it, or call it only around checkpoints and downloads.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Under a guard of ten steps or more, at the end of an epoch, or while saving.
- Beside reads of values of the GPU, or other exchanges, of the same step: information.

## Evidence
- PyTorch documentation, `torch.distributed.barrier`.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::vector<const Call*> barriers = facts.calls({"torch.distributed.barrier"});
  for (const Call* call : facts.method_calls("wait_for_everyone")) barriers.push_back(call);
  for (const Call* call : barriers) {
    if (!is_in_step_loop(facts, *call)) continue;
    Fix fix{"Remove it: the exchange of gradients already keeps the processes together",
            Exactness::bit_exact};
    if (call->statement->value == call->expr) add_edit(remove_statement(*call->statement), fix);
    Finding finding = finding_at(
        *call, "all processes wait for each other and for the GPU in every step", std::move(fix));
    finding.evidence = {Evidence::published("PyTorch documentation, torch.distributed.barrier")};
    const auto loops = step_loops_of(facts, *call->statement);
    const bool waits =
        std::ranges::any_of(loops, [&](const Loop* loop) { return empties_queue(facts, *loop); });
    if (waits || has_other_waits(facts, *call)) {
      finding.own_level = Level::info;
      finding.evidence.push_back(Evidence::found("other waits of the step stay"));
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace barrier_every_step

extern const Rule distributed_barrier_every_step{
    .id = "distributed/barrier-every-step",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Barrier in every step: all processes wait for each other",
    .doc = barrier_every_step::kDoc,
    .in_scripts = barrier_every_step::find};

}  // namespace rooftile
