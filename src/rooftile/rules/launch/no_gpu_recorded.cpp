#include <fmt/format.h>

#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace launch_no_gpu_recorded_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A recording of a program that holds no work of a GPU.

## Why it costs time
It costs none. But nothing can be said of the GPU's time, and silence must not look like praise.

## How to fix
Record with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`, or with `nsys profile
--trace=cuda,nvtx`, on a machine with a GPU. When
kernels are launched and none is recorded, the profiler may not use the GPU's counters: another
profiler is running, or the container lacks the permission.

## How the saving is estimated
None is claimed.

## When not to
- The program is meant to run on the CPU.

## Evidence
- PyTorch profiler documentation, `torch.profiler.profile`, `activities`.
)md";

std::vector<TraceCase> judge(const TraceSummary& trace) {
  if (trace.kernels > 0 || trace.whole.copy > Seconds() || trace.is_foreign) return {};
  Finding finding = about_trace(
      trace,
      trace.launches > 0
          ? fmt::format("{} launches are recorded but no kernel: nothing is known about the GPU",
                        trace.launches)
          : std::string("no GPU work is recorded: nothing is known about it"),
      {trace.format == "Nsight Systems"
           ? "Record with nsys profile --trace=cuda,nvtx"
           : "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
       Exactness::not_applicable});
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace launch_no_gpu_recorded_rule

extern const Rule launch_no_gpu_recorded{.id = "launch/no-gpu-recorded",
                                         .level = Level::info,
                                         .cause = Cause::none,
                                         .summary = "Trace holds no GPU work",
                                         .doc = launch_no_gpu_recorded_rule::kDoc,
                                         .in_traces = launch_no_gpu_recorded_rule::check};

}  // namespace rooftile
