#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/attention_parts.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"
#include "rooftile/rules/triton.h"

namespace rooftile {
namespace memory_bound_unfused_kernels_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A program that spends 15 per cent of its time or more in kernels of elementwise operations,
normalisations, softmaxes, reductions and casts that follow one another without being fused.

## Why it costs time
Each kernel reads its operands from memory and writes its result back, and the next one reads it again.
Their time goes with the bytes, so no shape makes them faster.

## How to fix
`torch.compile` fuses such runs. By hand: fused layer normalisation, attention and optimizers,
activations in place where autograd allows it.

## How the saving is estimated
From the bytes: a run of n kernels that each read r tensors and write one moves n(r+1) tensors, fused
it moves its inputs once and its output once. Saved are the intermediate reads and writes: (n-1)/n of
the time at the high end, where r is 1; two thirds of that is expected, where r is 2; a quarter at the
low end, since training keeps some intermediates for the backward pass. n is the mean run in the trace.
What other kernels or the host hide is taken off.

## When not to
- Attention that is not fused is left out: see `attention/unfused`.
- Kernels of libraries other than PyTorch and cuDNN are left out: a compiler does not look into them.
- A program that GEMMs dominate gains little, and compiling takes a minute or more. Less than a twentieth of the
  step is information.
- Shapes that change from step to step compile again and again.
- GPUs before Volta: what torch.compile makes does not run there.

## Evidence
- NVIDIA, Memory-Limited Layers User's Guide: the time of these operations goes with the bytes.
- PyTorch Performance Tuning Guide, "Fuse operations".
)md";

constexpr double kMinShare = threshold::kWorthCompiling;  // of the window
constexpr double kMinGain = 0.02;      // of the window; assumed worth a compilation
constexpr double kVisibleGain = 0.05;  // less is information
constexpr double kMinRun = 1.5;        // kernels one behind the other, on average
constexpr double kMostCompiled = 0.3;  // of the time, above which somebody compiles already

Range<Seconds> saving_of(const PointwiseUse& pointwise, double run) {
  const Seconds most = (1 - 1 / run) * (pointwise.time - pointwise.compiled_time);
  return {0.25 * most, 2.0 / 3 * most, most};
}

std::vector<Evidence> largest(const TraceSummary& trace) {
  constexpr std::size_t kMostTold = 4;
  const auto wanted = [&](const OpUse* use, const KernelUse& kernel) {
    return is_pointwise(kernel.facts.kernel_class) &&
           (use == nullptr || !is_attention_part(trace, *use));
  };
  std::vector<Evidence> lines;
  for (const UseGroup& group : group_by_shape(trace, wanted)) {
    if (lines.size() == kMostTold) break;
    lines.push_back(
        Evidence::measured(fmt::format("{} {}", group_text(group), cost_text(trace, group.time))));
  }
  return lines;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const PointwiseUse& pointwise = trace.pointwise;
  if (pointwise.runs <= 0 || pointwise.time < kMinShare * trace.time.span) return {};
  if (pointwise.compiled_time > kMostCompiled * pointwise.time) return {};
  const double run = static_cast<double>(pointwise.kernels) / static_cast<double>(pointwise.runs);
  if (run < kMinRun) return {};
  const Range<Seconds> gain = gain_of_kernel_time(trace, saving_of(pointwise, run));
  if (gain.expected < kMinGain * trace.time.span) return {};
  Finding finding = about_trace(
      trace,
      fmt::format("elementwise operations, norms, softmaxes and casts take {} in {}, in chains of "
                  "{:.1f} on average",
                  cost_text(trace, pointwise.time), count_text(trace, pointwise.kernels, "kernel"),
                  run),
      {"Fuse them with torch.compile", Exactness::exact_arithmetic}, gain);
  finding.count = pointwise.kernels;
  if (gain.expected < kVisibleGain * trace.time.span) finding.own_level = Level::info;
  finding.evidence = largest(trace);
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  if (!runs_triton(input.device())) return {};
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace memory_bound_unfused_kernels_rule

extern const Rule memory_bound_unfused_kernels{
    .id = "memory_bound/unfused-kernels",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Consecutive elementwise kernels are not fused",
    .doc = memory_bound_unfused_kernels_rule::kDoc,
    .in_traces = memory_bound_unfused_kernels_rule::check};

}  // namespace rooftile
