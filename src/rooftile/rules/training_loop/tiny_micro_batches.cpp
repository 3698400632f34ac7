#include <fmt/format.h>

#include <unordered_set>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"
#include "rooftile/script/reach/ways_up.h"

namespace rooftile {
namespace training_loop_tiny_micro_batches_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A training loop that accumulates at least 8 steps over a loader with `batch_size=1`.

## Why it costs time
Matrix products of one sample fill few of the GPU's multiprocessors, and the host launches eight
times as many kernels as for one batch of eight.

## How to fix
Raise the batch size as far as memory allows, and lower the accumulation to match: the step sees
the same samples.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step time
says what there is to gain.

## When not to
- One sample fills the memory.
- Samples of very different size: padding may cost more than it gains.
- Batch normalisation sees other statistics.

## Evidence
- NVIDIA deep learning performance guide, "Linear/Fully-Connected Layers", section on batch size.
)md";

using namespace source;

constexpr std::int64_t kManySteps = 8;

// n of `if step % n == 0` around the optimizer's step.
std::int64_t accumulated_steps(const SourceFacts& facts, const Loop& loop) {
  if (loop.optimizer_step == nullptr) return 0;
  for (const Guard& guard : guards_on_ways(facts, *loop.optimizer_step->statement)) {
    const bool counts = guard.kind == GuardKind::every_n && !guard.negated;
    if (counts && guard.interval.kind == ValueKind::integer) return guard.interval.integer;
  }
  return 0;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  std::unordered_set<const Call*> seen;
  for (const Loop* loop : facts.loops(LoopRole::training_step)) {
    if (loop->loader == nullptr || !trains_on_gpu(facts, *loop->file)) continue;
    const Value batch = facts.argument(*loop->loader, "batch_size", 1);
    const std::int64_t steps = accumulated_steps(facts, *loop);
    if (!batch.is(1) || steps < kManySteps || !seen.insert(loop->loader).second) continue;
    Finding finding = finding_at(
        *loop->loader,
        fmt::format(
            "{} batches of one sample make a step: small kernels leave most of the GPU idle",
            steps),
        {fmt::format("Raise batch_size as far as memory allows, and lower the {} accumulated steps "
                     "to match",
                     steps),
         Exactness::changes_numerics});
    finding.evidence = {
        Evidence::found(fmt::format("accumulation test in the loop at {}",
                                    place_text(*loop->statement, *loop->loader->file))),
        Evidence::to_check("settle it with a trace: rooftile check train.py trace.json.gz")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace training_loop_tiny_micro_batches_rule

extern const Rule training_loop_tiny_micro_batches{
    .id = "training_loop/tiny-micro-batches",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Gradients are accumulated over many batches of one sample",
    .doc = training_loop_tiny_micro_batches_rule::kDoc,
    .in_scripts = training_loop_tiny_micro_batches_rule::find};

}  // namespace rooftile
