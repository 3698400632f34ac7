#include <fmt/format.h>

#include <cstdint>

#include "rooftile/analysis/source/loaders.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace more_workers_than_cores {

constexpr std::string_view kDoc = R"md(
## What it finds
A literal `num_workers` of 33 or more.

## Why it costs time
The workers of all processes compete for the cores, and each holds a copy of what the dataset
keeps in memory.

## How to fix
Cores per GPU, often 8 to 16.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Machines with that many cores per GPU.

## Evidence
- PyTorch source, `DataLoader`: it warns where there are more workers than cores.
)md";

using namespace source;

constexpr std::int64_t kMany = 33;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* loader : training_loaders(facts)) {
    const Value workers = facts.argument(*loader, "num_workers", 5);
    if (workers.kind != ValueKind::integer || workers.integer < kMany || !workers.fixed()) continue;
    Finding finding = finding_at(
        *loader, fmt::format("{} workers for one process", workers.integer),
        {"Set num_workers to the cores per GPU, often 8 to 16", Exactness::exact_arithmetic});
    finding.evidence = {
        Evidence::published("PyTorch's DataLoader warns of more workers than cores")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace more_workers_than_cores

extern const Rule input_pipeline_more_workers_than_cores{
    .id = "input_pipeline/more-workers-than-cores",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "DataLoader has more workers than a process has cores",
    .doc = more_workers_than_cores::kDoc,
    .in_scripts = more_workers_than_cores::find};

}  // namespace rooftile
