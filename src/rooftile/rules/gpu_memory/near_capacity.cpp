#include <fmt/format.h>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gpu_memory_near_capacity_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A recording whose allocator holds nine tenths of the GPU's memory or more.

## Why it costs time
By itself it costs nothing. Close to the limit the allocator starts to free and allocate in the
steps, and a longer sequence or another fragmentation ends in an out-of-memory error.

## How to fix
If the allocator is seen to call the driver, a slightly smaller batch is often faster. Otherwise
nothing needs to change.

## How the saving is estimated
None is claimed.

## When not to
- Memory that is reserved but not allocated is the allocator's own cache and may be given back.

## Evidence
- PyTorch CUDA semantics note, "Memory management": reserved memory includes what the allocator
  keeps for later.
)md";

constexpr double kNear = 0.9;

// As recorded, else of the GPU that the findings are for.
Bytes capacity(const RuleInput& input, const TraceSummary& trace) {
  if (trace.device && trace.device->memory_bytes > 0) {
    return Bytes(static_cast<double>(trace.device->memory_bytes));
  }
  return input.device().dram_size;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(
      input.workload.traces, [&](const TraceSummary& trace) -> std::vector<TraceCase> {
        const std::optional<Bytes>& reserved = trace.allocator.peak_reserved;
        const Bytes all = capacity(input, trace);
        if (!reserved || all <= Bytes(0) || *reserved < kNear * all) return {};
        Finding finding =
            about_trace(trace,
                        fmt::format("the allocator holds {} of the GPU's {} at its peak",
                                    bytes_text(*reserved), bytes_text(all)),
                        {"Leave some memory free if steps begin to allocate or to fail",
                         Exactness::not_applicable});
        if (trace.allocator.peak_allocated) {
          finding.evidence = {Evidence::measured(fmt::format(
              "{} of it were in use at the peak", bytes_text(*trace.allocator.peak_allocated)))};
        }
        return {{"", std::move(finding)}};
      });
}

}  // namespace gpu_memory_near_capacity_rule

extern const Rule gpu_memory_near_capacity{.id = "gpu_memory/near-capacity",
                                           .level = Level::info,
                                           .cause = Cause::none,
                                           .summary = "Nearly all of the GPU's memory is reserved",
                                           .doc = gpu_memory_near_capacity_rule::kDoc,
                                           .in_traces = gpu_memory_near_capacity_rule::check};

}  // namespace rooftile
