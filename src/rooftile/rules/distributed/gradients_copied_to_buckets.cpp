#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {

namespace distributed_gradients_copied_to_buckets_in_trace {
std::vector<Finding> check(std::span<const TraceSummary> ranks);
}

namespace gradients_copied_to_buckets {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel` without `gradient_as_bucket_view=True`. In a recording: the copies of gradients out of
its buckets (`torch.distributed.ddp.reducer::copy_bucket_to_grad`), where they and the idle time of their launches
take a visible part of the step.

## Why it costs time
Each gradient is copied to the buffer of the exchange and back, and both are kept in memory.

## How to fix
`gradient_as_bucket_view=True`.

## How the saving is estimated
Not from the source alone. From a recording: the copies and the idle time while they are launched; half of that
idle time at the least, as the next thing that holds the host up may take over.

## When not to
- Code that calls `detach_()` on gradients.

## Evidence
- PyTorch documentation, `DistributedDataParallel`, gradient_as_bucket_view.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"torch.nn.parallel.DistributedDataParallel"})) {
    const Value view = facts.argument(*call, "gradient_as_bucket_view");
    if ((!view.absent() && !view.is_false()) || call->unknown_arguments) continue;
    Fix fix{
        "Set gradient_as_bucket_view=True: the gradients then live in the buffers of the "
        "exchange",
        Exactness::bit_exact};
    if (view.absent()) add_edit(add_argument(*call, "gradient_as_bucket_view", "True"), fix);
    Finding finding =
        finding_at(*call, "each gradient is copied into a buffer for the exchange, and kept twice",
                   std::move(fix));
    finding.evidence = {Evidence::published(
        "PyTorch documentation, DistributedDataParallel, gradient_as_bucket_view")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gradients_copied_to_buckets

extern const Rule distributed_gradients_copied_to_buckets{
    .id = "distributed/gradients-copied-to-buckets",
    .level = Level::info,
    .level_in_traces = Level::advice,
    .cause = Cause::none,
    .summary = "DDP copies every gradient into a bucket",
    .doc = gradients_copied_to_buckets::kDoc,
    .in_any_trace = distributed_gradients_copied_to_buckets_in_trace::check,
    .in_scripts = gradients_copied_to_buckets::find};

}  // namespace rooftile
