#include <fmt/format.h>

#include "rooftile/analysis/source/environment.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace allocator_cache_off {

constexpr std::string_view kDoc = R"md(
## What it finds
`PYTORCH_NO_CUDA_MEMORY_CACHING` set by a program that trains on a GPU.

## Why it costs time
Every tensor is a `cudaMalloc`, and every release a `cudaFree` that waits for the GPU.

## How to fix
Remove the line; set the variable in the shell for memory checkers only.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Under a debugging flag that is off by default.

## Evidence
- PyTorch CUDA semantics note, "Memory management": to debug memory errors, set
  PYTORCH_NO_CUDA_MEMORY_CACHING=1.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const EnvironmentSetting& setting :
       environment_settings(facts, "PYTORCH_NO_CUDA_MEMORY_CACHING")) {
    const Value value = facts.value(setting.value);
    if (value.is("0") || value.is("")) continue;
    Fix fix{"Remove the line, and set the variable in the shell for a memory checker only",
            Exactness::bit_exact};
    add_edit(remove_statement(*setting.statement), fix);
    fix.safe = !fix.edits.empty();
    Finding finding = finding_at(
        *setting.statement,
        "PYTORCH_NO_CUDA_MEMORY_CACHING: every tensor is allocated by the driver, and freeing it "
        "waits for the GPU",
        std::move(fix));
    finding.evidence = {
        Evidence::published("for debugging", "PyTorch CUDA semantics note, Memory management")};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace allocator_cache_off

extern const Rule gpu_memory_allocator_cache_off{.id = "gpu_memory/allocator-cache-off",
                                                 .level = Level::warning,
                                                 .cause = Cause::none,
                                                 .summary = "CUDA caching allocator is disabled",
                                                 .doc = allocator_cache_off::kDoc,
                                                 .in_scripts = allocator_cache_off::find};

}  // namespace rooftile
