#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace training_loop_zeroed_gradients_in_trace {

constexpr std::int64_t kFewest = 10;  // additions: fewer may be parameters that layers share
constexpr std::string_view kAccumulates = "torch::autograd::AccumulateGrad";

bool is_zero_grad(const RangeUse& range) {
  return range.name.find("zero_grad") != std::string::npos;
}

// Where gradients exist before the backward pass, it adds to each; without them it keeps its own.
// Of passes that accumulate on purpose the additions stay.
const RangeUse* additions(const TraceSummary& trace) {
  const auto found = std::ranges::find(trace.ranges, kAccumulates, &RangeUse::name);
  return found == trace.ranges.end() || found->kernels == 0 ? nullptr : &*found;
}

Range<Seconds> gain_of(const TraceSummary& trace, const RangeUse& range) {
  Range<Seconds> gain =
      gain_of_kernel_time(trace, {range.kernel_time, range.kernel_time, range.kernel_time});
  return gain + Range<Seconds>{0.5 * range.idle, range.idle, range.idle};
}

const Fix kFix{
    "zero_grad(set_to_none=True), so that the backward pass writes gradients instead of adding "
    "to zeros",
    Exactness::exact_arithmetic};

// Not for each micro-batch but once: as many additions as fills, within a tenth.
bool are_added_to_zeros(const RangeUse& fills, const RangeUse& added) {
  const auto zeros = static_cast<double>(fills.kernels), sums = static_cast<double>(added.kernels);
  return sums < 1.1 * zeros;
}

Finding describe(const TraceSummary& trace, const RangeUse& range) {
  Range<Seconds> gain = gain_of(trace, range);
  Seconds time = range.kernel_time + range.idle;
  std::string more;
  const RangeUse* added = additions(trace);
  if (added != nullptr && are_added_to_zeros(range, *added)) {
    gain += gain_of(trace, *added);
    time += added->kernel_time + added->idle;
    more = fmt::format(", and the backward pass adds to them in {}",
                       count_text(trace, added->kernels, "kernel"));
  }
  Finding finding = about_site(
      trace, range.site,
      fmt::format("{} writes zeros in {}{}: {} with the idle time that launching them causes",
                  range.name, count_text(trace, range.kernels, "fill"), more,
                  cost_text(trace, time)),
      kFix, gain);
  finding.count = range.kernels;
  finding.evidence = {Evidence::measured(
      fmt::format("{} of fills; the GPU idles for {} while they are launched",
                  cost_text(trace, range.kernel_time), cost_text(trace, range.idle)))};
  if (!more.empty()) {
    finding.evidence.push_back(Evidence::measured(fmt::format(
        "{} of additions in {}; the GPU idles for {} while they are launched",
        cost_text(trace, added->kernel_time), kAccumulates, cost_text(trace, added->idle))));
  }
  return finding;
}

// A recording of one backward pass shows the additions alone: zeros, or a pass before it, were
// there.
Finding describe_additions(const TraceSummary& trace, const RangeUse& added) {
  Finding finding = about_site(
      trace, added.site,
      fmt::format("the backward pass adds to gradients that exist already, in {}: {} with the idle "
                  "time that launching them causes",
                  count_text(trace, added.kernels, "kernel"),
                  cost_text(trace, added.kernel_time + added.idle)),
      {"zero_grad(set_to_none=True) before each backward pass, unless gradients of several are to "
       "be "
       "added up",
       Exactness::exact_arithmetic},
      gain_of(trace, added));
  finding.saving->low = Seconds();
  // A recording without an optimizer may be of a benchmark's passes, which nobody has to zero.
  const bool trains = std::ranges::any_of(
      trace.ranges, [](const RangeUse& range) { return range.name.starts_with("Optimizer.step"); });
  if (!trains) finding.own_level = Level::info;
  finding.count = added.kernels;
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  bool has_zero_grad = false;
  for (const RangeUse& range : trace.ranges) {
    has_zero_grad = has_zero_grad || is_zero_grad(range);
    // With set_to_none it launches nothing; its time is the loop over the parameters.
    if (!is_zero_grad(range) || range.kernels == 0) continue;
    if (!is_visible(trace, range.kernel_time + range.idle)) continue;
    cases.push_back({range.name, describe(trace, range)});
  }
  const RangeUse* added = additions(trace);
  if (cases.empty() && !has_zero_grad && added != nullptr && added->kernels >= kFewest &&
      is_visible(trace, added->kernel_time + added->idle)) {
    cases.push_back({added->name, describe_additions(trace, *added)});
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace training_loop_zeroed_gradients_in_trace

}  // namespace rooftile
