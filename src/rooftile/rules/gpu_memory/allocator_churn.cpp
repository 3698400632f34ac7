#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/steady.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {

namespace gpu_memory_allocator_churn_in_source {
std::vector<Finding> find(const source::SourceFacts& facts);
}

namespace gpu_memory_allocator_churn_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
- In a trace: `cudaMalloc` and `cudaFree` in steps that should have all their memory already, when the GPU
  idles for them. In a recording without steps: where memory is freed and allocated again, ten times or more.
- In a script: `torch.cuda.empty_cache()` on each pass of a training or evaluation loop.

## Why it costs time
PyTorch keeps freed memory and hands it out again, without the driver. Where that fails, because
sizes change from step to step or memory runs out, it frees its cache, for which the GPU has to
finish all work, and asks the driver for new blocks. `empty_cache()` forces the same, and frees nothing that
PyTorch could not use.

## How to fix
No `torch.cuda.empty_cache()` in the loop. `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` where shapes
vary; a slightly smaller batch where memory runs out; one first step at the largest size. A program without
PyTorch allocates once, or takes memory from a pool: `cudaMallocAsync`. The pool gives its memory back to the
driver at each synchronisation, unless `cudaMemPoolAttrReleaseThreshold` is raised.

## How the saving is estimated
From a trace: the GPU's idle time that follows from the calls; the low end is half of it. From a script alone
nothing is estimated.

## When not to
- The first steps of a program allocate. Record later ones.
- `empty_cache()` once per epoch, under a guard of ten steps or more, or while handling an out-of-memory
  error.

## Evidence
- PyTorch CUDA semantics note, "Memory management" and "Optimizing memory usage with
  PYTORCH_CUDA_ALLOC_CONF"; `torch.cuda.empty_cache`.
- NVIDIA CUDA C++ programming guide, "Stream Ordered Memory Allocator": release threshold of a pool.
)md";

constexpr std::int64_t kHabit = 10, kOften = 50;

// A recording without steps may be the start of a program, which has to allocate, but not to free;
// one whose time mostly goes to start-up and first calls is.
bool may_be_a_start(const TraceSummary& trace) {
  const std::int64_t again = std::min(trace.allocator.mallocs, trace.allocator.frees);
  const bool is_start = 2 * steady_span(trace) < trace.time.span;
  // As often as kernels are launched is no start, freed or not.
  if (trace.allocator.mallocs >= kOften && 2 * trace.allocator.mallocs >= trace.launches) {
    return false;
  }
  return trace.steps.durations.size() < 2 && (again < kHabit || is_start);
}

Fix propose(const TraceSummary& trace) {
  // PyTorch's allocator asks for large blocks, and frees before it asks again and again.
  const bool is_own = trace.allocator.frees == 0 && trace.allocator.mallocs >= kOften;
  if (2 * trace.allocator.from_pool > trace.allocator.mallocs) {
    return {
        "Let the pool keep its memory over synchronisations (cudaMemPoolSetAttribute, "
        "cudaMemPoolAttrReleaseThreshold: by default it goes back to the driver at each), or "
        "allocate once",
        Exactness::bit_exact};
  }
  if (is_own && !uses_torch(trace)) {
    return {"Allocate one block for all of it and use parts of that", Exactness::bit_exact};
  }
  if (is_own || !uses_torch(trace)) {
    return {"Allocate once and use the memory again, or take it from a pool (cudaMallocAsync)",
            Exactness::bit_exact};
  }
  return {
      "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True if shapes vary, use a smaller batch if "
      "memory is full, and call no empty_cache() in the loop",
      Exactness::bit_exact};
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const AllocatorUse& allocator = trace.allocator;
  if (may_be_a_start(trace)) return {};
  if (allocator.mallocs + allocator.frees <= 0 || !is_visible(trace, allocator.exposed)) return {};
  Finding finding = about_trace(
      trace,
      fmt::format(
          "the allocator calls the driver{} ({}, {}), and the GPU {} {}",
          trace.steps.durations.empty() ? " again and again" : " inside the steps",
          count_text(
              trace, allocator.mallocs,
              2 * allocator.from_pool > allocator.mallocs ? "cudaMallocAsync" : "cudaMalloc"),
          count_text(trace, allocator.frees, "cudaFree"),
          trace.time.communication_beside_allocation > Seconds() ? "computes nothing for" : "idles",
          cost_text(trace, allocator.exposed)),
      propose(trace), gain_of_idle_time(trace, Remedy::no_allocation, allocator.exposed));
  finding.count = allocator.mallocs + allocator.frees;
  finding.evidence = {Evidence::measured(
      fmt::format("the host is in those calls for {}", time_text(allocator.blocked)))};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace gpu_memory_allocator_churn_rule

extern const Rule gpu_memory_allocator_churn{
    .id = "gpu_memory/allocator-churn",
    .former_id = "gpu_memory/cache-emptied-in-loop",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Memory is allocated from the driver in every step",
    .doc = gpu_memory_allocator_churn_rule::kDoc,
    .in_any_trace = gpu_memory_allocator_churn_rule::check,
    .in_scripts = gpu_memory_allocator_churn_in_source::find,
    .costs_elsewhere = true};

}  // namespace rooftile
