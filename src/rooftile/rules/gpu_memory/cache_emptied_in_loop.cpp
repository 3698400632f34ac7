#include <fmt/format.h>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace cache_emptied_in_loop {

constexpr std::string_view kDoc = R"md(
## What it finds
`torch.cuda.empty_cache()` on each pass of a training or evaluation loop.

## Why it costs time
The blocks go back to the driver, and the next step asks for them again with `cudaMalloc`, which
waits for the GPU. It frees nothing that PyTorch could not use.

## How to fix
Remove it. Against fragmentation there is `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.

## How the saving is estimated
Not from the source alone. With a recording (`rooftile check train.py trace.json.gz`) the step
time says what there is to gain.

## When not to
- Once per epoch, or under a guard of ten steps or more.
- While handling an out-of-memory error.

## Evidence
- PyTorch CUDA semantics note, "Memory management"; `torch.cuda.empty_cache`.
)md";

using namespace source;

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const Call* call : launched_calls(facts, {"torch.cuda.empty_cache"})) {
    if (call->statement == nullptr) continue;
    const bool trains = is_hot(facts, *call);
    if (!trains && !is_in_evaluation_loop(facts, *call)) continue;
    Fix fix{
        "Remove it: PyTorch uses its cached blocks again; against fragmentation set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        Exactness::bit_exact};
    if (call->statement->value == call->expr) add_edit(remove_statement(*call->statement), fix);
    Finding finding = finding_at(
        *call,
        fmt::format("the cache of GPU memory is emptied in every {} step, and filled again by "
                    "cudaMalloc, which waits for the GPU",
                    trains ? "training" : "evaluation"),
        std::move(fix));
    finding.evidence = {"PyTorch CUDA semantics note, Memory management"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace cache_emptied_in_loop

extern const Rule gpu_memory_cache_emptied_in_loop{
    .id = "gpu_memory/cache-emptied-in-loop",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "empty_cache() is called in every step",
    .doc = cache_emptied_in_loop::kDoc,
    .in_scripts = cache_emptied_in_loop::find};

}  // namespace rooftile
