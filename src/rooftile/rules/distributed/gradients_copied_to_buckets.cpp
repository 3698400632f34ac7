#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gradients_copied_to_buckets {

constexpr std::string_view kDoc = R"md(
## What it finds
`DistributedDataParallel` without `gradient_as_bucket_view=True`.

## Why it costs time
Each gradient is copied to the buffer of the exchange and back, and both are kept in memory.

## How to fix
`gradient_as_bucket_view=True`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

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
    .cause = Cause::none,
    .summary = "DDP copies every gradient into a bucket",
    .doc = gradients_copied_to_buckets::kDoc,
    .in_scripts = gradients_copied_to_buckets::find};

}  // namespace rooftile
