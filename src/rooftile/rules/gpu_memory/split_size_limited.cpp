#include <fmt/format.h>

#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace split_size_limited {

constexpr std::string_view kDoc = R"md(
## What it finds
`max_split_size_mb` in `PYTORCH_CUDA_ALLOC_CONF`, set by the program.

## Why it costs time
Blocks above the limit are not divided, so requests of odd sizes ask the driver more often.

## How to fix
`expandable_segments:True` avoids fragmentation without that cost.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- GPUs or systems on which expandable segments do not work.

## Evidence
- PyTorch CUDA semantics note, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF":
  max_split_size_mb is a last resort.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const std::string_view name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    for (const EnvironmentSetting& setting : environment_settings(facts, name)) {
      const Value value = facts.value(setting.value);
      const bool is_limited = value.kind == ValueKind::text &&
                              value.text.find("max_split_size_mb") != std::string_view::npos;
      if (!is_limited) continue;
      Finding finding = finding_at(
          *setting.statement, fmt::format("{}: blocks above the limit are not split", value.text),
          {"Set expandable_segments:True instead of max_split_size_mb", Exactness::bit_exact});
      finding.evidence = {Evidence::published(
          "PyTorch CUDA semantics note, Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF")};
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace split_size_limited

extern const Rule gpu_memory_split_size_limited{
    .id = "gpu_memory/split-size-limited",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "max_split_size_mb limits block splitting",
    .doc = split_size_limited::kDoc,
    .in_scripts = split_size_limited::find};

}  // namespace rooftile
