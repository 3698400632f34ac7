#include <fmt/format.h>

#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace training_loop_zero_grad_fills_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A visible share of the step spent in filling gradients with zeros in `zero_grad`, on the GPU or in
waiting for the launches.

## Why it costs time
Every gradient is written once, and the backward pass then reads and adds to it instead of just
writing it. For many small parameters the launches cost as much.

## How to fix
`optimizer.zero_grad(set_to_none=True)`, the default since PyTorch 2.0.

## How the saving is estimated
The kernel and fill time inside the ranges called `zero_grad`, less what may have run beside other
work, and the GPU's idle time that launching them causes; at the low end half of that.

## When not to
- Code that reads `.grad` without a backward pass before sees None.
- Optimizers skip parameters without a gradient; with zeros they still decay them.

## Evidence
- PyTorch Performance Tuning Guide, "Use parameter.grad = None instead of model.zero_grad()".
- PyTorch `torch/profiler/_pattern_matcher.py`, GradNotSetToNonePattern.
)md";

bool is_zero_grad(const RangeUse& range) {
  return range.name.find("zero_grad") != std::string::npos;
}

Finding describe(const TraceSummary& trace, const RangeUse& range) {
  Range<Seconds> gain =
      gain_of_kernel_time(trace, {range.kernel_time, range.kernel_time, range.kernel_time});
  gain += Range<Seconds>{0.5 * range.idle, range.idle, range.idle};
  Finding finding = about_site(
      trace, range.site,
      fmt::format("{} writes zeros in {}, {} with the idle time that launching them causes",
                  range.name, count_text(trace, range.kernels, "fill"),
                  cost_text(trace, range.kernel_time + range.idle)),
      {"zero_grad(set_to_none=True), so that the backward pass writes gradients instead of adding "
       "to zeros",
       Exactness::exact_arithmetic},
      gain);
  finding.location.node = range.name;
  finding.count = range.kernels;
  finding.evidence = {
      fmt::format("measured: {} of kernels in {} calls; the GPU idles for {} in them",
                  duration_text(range.kernel_time), range.count, duration_text(range.idle))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const RangeUse& range : trace.ranges) {
    if (!is_zero_grad(range) || !is_visible(trace, range.kernel_time + range.idle)) continue;
    cases.push_back({range.name, describe(trace, range)});
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace training_loop_zero_grad_fills_rule

extern const Rule training_loop_zero_grad_fills{
    .id = "training_loop/zero-grad-fills",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Gradients are zero-filled in every step",
    .doc = training_loop_zero_grad_fills_rule::kDoc,
    .in_any_trace = training_loop_zero_grad_fills_rule::check};

}  // namespace rooftile
