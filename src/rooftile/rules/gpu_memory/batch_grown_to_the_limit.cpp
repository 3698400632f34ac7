#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/source/program_queries.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/source_finding.h"

namespace rooftile {
namespace gpu_memory_batch_grown_to_the_limit_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A batch size that is tried out until memory runs out: `find_executable_batch_size` of accelerate,
`auto_find_batch_size=True` of transformers, Lightning's `scale_batch_size` and `auto_scale_batch_size`, or
a loop that catches `OutOfMemoryError` and makes the batch smaller.

## Why it costs time
The largest batch that fits is not the fastest. Near the limit allocations fail, the allocator gives all its
cached blocks back and asks again, and the host waits for the GPU each time. `num_alloc_retries` in
`torch.cuda.memory_stats()` counts it.

## How to fix
Time a few hundred steps at the batch that was found and at 7/8 and 3/4 of it, and take the one with the most
samples per second whose `num_alloc_retries` stays at 0.

## How the saving is estimated
Not from the source alone. `rooftile sweep` shows time and memory over the batch of a model.

## When not to
- Evaluation, where the batch changes nothing but the time.

## Evidence
- PyTorch documentation, `torch.cuda.memory_stats`: num_alloc_retries counts failed cudaMalloc calls that led to
  a cache flush and a retry.
)md";

using namespace source;

// `batch //= 2`, `batch_size = batch_size // 2` in a handler of out-of-memory.
const Statement* shrinks_batch(const Statement& handler) {
  const bool is_handler =
      handler.kind == StatementKind::handler && handler.word == "except" &&
      contains_any(handler.file->slice(handler.range), {"OutOfMemoryError", "out of memory"});
  const Statement* found = nullptr;
  if (!is_handler) return found;
  for_statements(handler.body, [&](const Statement& each) {
    const bool sets =
        each.kind == StatementKind::assignment && contains(lower(last_name(each.target)), "batch");
    const bool divides = each.word == "//=" || (each.value != nullptr && each.word == "=" &&
                                                each.value->kind == ExprKind::binary &&
                                                is_one_of(each.value->word(), {"//", "-"}));
    if (sets && divides && found == nullptr) found = &each;
  });
  return found;
}

bool searches_batch(const SourceFacts& facts, const Call& call) {
  if (is_one_of(call.method, {"find_executable_batch_size", "scale_batch_size"})) {
    return call.target == nullptr;
  }
  for (const std::string_view name : {"auto_find_batch_size", "auto_scale_batch_size"}) {
    const Value value = facts.argument(call, name);
    if (value.is_true() || value.kind == ValueKind::text) return true;
  }
  return false;
}

Finding described(Finding finding) {
  finding.evidence = {Evidence::published("num_alloc_retries counts flushed caches",
                                          "PyTorch documentation, torch.cuda.memory_stats")};
  return finding;
}

constexpr std::string_view kMessage =
    "the batch grows until memory runs out: at that limit the allocator flushes its cache and "
    "retries, which a smaller batch does not";

Fix fix() {
  return {
      "Time 1, 7/8 and 3/4 of the batch that was found, and keep the fastest whose "
      "torch.cuda.memory_stats()[\"num_alloc_retries\"] stays at 0",
      Exactness::changes_training};
}

std::vector<Finding> find(const SourceFacts& facts) {
  std::vector<Finding> findings;
  for (const auto& file : facts.files) {
    if (!trains_on_gpu(facts, *file)) continue;
    for (const Call* call : file->calls) {
      if (searches_batch(facts, *call)) {
        findings.push_back(described(finding_at(*call, std::string(kMessage), fix())));
      }
    }
    for (const Statement* statement : file->statements) {
      const Statement* shrinks = shrinks_batch(*statement);
      if (shrinks == nullptr) continue;
      findings.push_back(described(finding_at(*shrinks, std::string(kMessage), fix())));
    }
  }
  return findings;
}

}  // namespace gpu_memory_batch_grown_to_the_limit_rule

extern const Rule gpu_memory_batch_grown_to_the_limit{
    .id = "gpu_memory/batch-grown-to-the-limit",
    .level = Level::info,
    .cause = Cause::none,
    .summary = "Batch size is searched for until memory runs out",
    .doc = gpu_memory_batch_grown_to_the_limit_rule::kDoc,
    .in_scripts = gpu_memory_batch_grown_to_the_limit_rule::find};

}  // namespace rooftile
