#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace gpu_memory_recomputed_layers_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Layers of the forward pass that run again within the backward pass, as activation checkpointing makes them,
when they take a visible share of the step. Information, unless the trace shows that GPU memory is free.

## Why it costs time
Checkpointing keeps the input of a block and computes the rest a second time for its gradient. With all
blocks checkpointed that is a whole forward pass more in each step.

## How to fix
Checkpoint only as many blocks as memory demands, or only what is cheap to compute and large to keep
(selective checkpointing). Fused attention keeps no scores, and often frees enough.

## How the saving is estimated
High: the time of all kernels that run again. Low: 0, because memory may need each of them. Half is assumed
likely where the peak of the allocated memory leaves a third of the GPU free; else nothing is promised.

## When not to
- Memory is what it saves: a larger batch or model can be worth more than the time.

## Evidence
- PyTorch documentation, `torch.utils.checkpoint`: "Activation checkpointing is a technique that trades
  compute for memory."
- Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022): 30 to 40 % of
  execution time with full recomputation, most of it avoided by recomputing selectively.
)md";

constexpr double kMostUsed = 2.0 / 3;  // of the GPU's memory

bool has_free_memory(const TraceSummary& trace) {
  if (!trace.device) return false;
  const std::optional<Bytes>& peak = trace.allocator.peak_reserved ? trace.allocator.peak_reserved
                                                                   : trace.allocator.peak_allocated;
  return peak && peak->value() < kMostUsed * static_cast<double>(trace.device->memory_bytes);
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const Seconds time = trace.recomputed.time;
  if (!is_visible(trace, time)) return {};
  const bool is_free = has_free_memory(trace);
  std::optional<Range<Seconds>> gain;
  if (is_free) gain = gain_of_kernel_time(trace, {Seconds(0), 0.5 * time, time});
  Finding finding = about_trace(
      trace,
      fmt::format("layers of the forward pass run again in the backward pass (activation "
                  "checkpointing): {} in {}",
                  cost_text(trace, time), count_text(trace, trace.recomputed.kernels, "kernel")),
      {"Checkpoint only as many blocks as memory demands", Exactness::exact_arithmetic}, gain);
  if (!is_free) finding.own_level = Level::info;
  finding.count = trace.recomputed.kernels;
  finding.evidence = {Evidence::measured(
      fmt::format("{} of kernels under layers that build a graph within autograd nodes",
                  time_text(per_step(trace, time))))};
  if (is_free) {
    finding.evidence.push_back(Evidence::found(
        fmt::format("the peak of the allocator's memory is below two thirds of the GPU's {}",
                    bytes_text(Bytes(static_cast<double>(trace.device->memory_bytes))))));
  }
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace gpu_memory_recomputed_layers_rule

extern const Rule gpu_memory_recomputed_layers{
    .id = "gpu_memory/recomputed-layers",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Activation checkpointing runs layers twice",
    .doc = gpu_memory_recomputed_layers_rule::kDoc,
    .in_traces = gpu_memory_recomputed_layers_rule::check};

}  // namespace rooftile
