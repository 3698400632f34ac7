#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace sync_batchnorm {

constexpr std::string_view kDoc = R"md(
## What it finds
`SyncBatchNorm.convert_sync_batchnorm(model)`.

## Why it costs time
Every norm layer exchanges its statistics in the forward and again in the backward, and waits for
the slowest GPU.

## How to fix
Plain BatchNorm where each GPU has a batch of about 16 or more.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Few samples per GPU, as in detection and segmentation: there it is needed.

## Evidence
- PyTorch documentation, `torch.nn.SyncBatchNorm`.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call :
       launched_calls(facts, {"torch.nn.SyncBatchNorm.convert_sync_batchnorm"})) {
    Finding finding = finding_at(
        *call, "every BatchNorm exchanges its statistics between the GPUs, forward and backward",
        {"Keep BatchNorm local where each GPU has about 16 samples or more",
         Exactness::changes_training});
    finding.evidence = {Evidence::published("PyTorch documentation, torch.nn.SyncBatchNorm")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace sync_batchnorm

extern const Rule distributed_sync_batchnorm{
    .id = "distributed/sync-batchnorm",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "SyncBatchNorm exchanges batch statistics in every layer",
    .doc = sync_batchnorm::kDoc,
    .in_scripts = sync_batchnorm::find};

}  // namespace rooftile
