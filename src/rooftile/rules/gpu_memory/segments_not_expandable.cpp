#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/hot_path.h"
#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gpu_memory_segments_not_expandable_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that trains under FSDP (`FullyShardedDataParallel`, `fully_shard`) and never names
`expandable_segments`.

## Why it costs time
FSDP gathers and frees the weights of one layer after the other, next to activations of other sizes. Blocks of
many sizes split the memory; near the limit an allocation then fails although enough is free. The allocator gives
all cached blocks back and asks again (`num_alloc_retries` in `torch.cuda.memory_stats()`), for which the host
waits until the GPU is idle.

## How to fix
Start with `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`. Print
`torch.cuda.memory_stats()["num_alloc_retries"]` every so many steps: as long as it grows, a smaller batch or
another layer of sharding is faster.

## How the saving is estimated
Not from the source alone. A recording shows cudaMalloc within steps: `gpu_memory/allocator-churn`.

## When not to
- The variable is set by the job script, which is not read here.
- Plenty of memory is free.
- Windows, or memory that is shared between processes.

## Evidence
- PyTorch CUDA semantics note, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF".
- PyTorch documentation, `torch.cuda.memory_stats`: num_alloc_retries counts failed cudaMalloc calls that led to
  a cache flush and a retry.
- NVIDIA NeMo Megatron Bridge, "Memory Tuning": set it first.
)md";

using namespace source;

bool names_segments(const Program& program) {
  return std::ranges::any_of(program.files, [](const File* file) {
    return contains_any(file->text, {"expandable_segments", "set_allocator_settings"});
  });
}

Finding finding_for(const Call& wrap) {
  Finding finding = finding_at(
      wrap,
      "FSDP allocates and frees blocks of many sizes, and the memory may break into pieces that "
      "fit none of them",
      {"Start with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and see whether "
       "torch.cuda.memory_stats()[\"num_alloc_retries\"] still grows",
       Exactness::bit_exact});
  finding.evidence = {
      Evidence::published(
          "PyTorch CUDA semantics note, Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF"),
      Evidence::published("set expandable_segments first",
                          "NVIDIA NeMo Megatron Bridge, Memory Tuning")};
  return finding;
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  const auto wraps = launched_calls(facts, {"torch.distributed.fsdp.FullyShardedDataParallel",
                                            "torch.distributed.fsdp.fully_shard",
                                            "torch.distributed._composable.fsdp.fully_shard"});
  for (const Program* program : training_programs(facts)) {
    const auto wrap =
        std::ranges::find_if(wraps, [&](const Call* call) { return program->has(*call->file); });
    if (wrap == wraps.end() || names_segments(*program)) continue;
    findings.push_back(finding_for(**wrap));
  }
  return findings;
}

}  // namespace gpu_memory_segments_not_expandable_rule

extern const Rule gpu_memory_segments_not_expandable{
    .id = "gpu_memory/segments-not-expandable",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "FSDP runs without expandable segments",
    .doc = gpu_memory_segments_not_expandable_rule::kDoc,
    .in_scripts = gpu_memory_segments_not_expandable_rule::find};

}  // namespace rooftile
