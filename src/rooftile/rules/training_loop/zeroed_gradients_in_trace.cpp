#include <fmt/format.h>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace training_loop_zeroed_gradients_in_trace {

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
  finding.evidence = {Evidence::measured(
      fmt::format("{} of kernels in {} calls; the GPU idles for {} in them",
                  time_text(range.kernel_time), range.count, time_text(range.idle)))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const RangeUse& range : trace.ranges) {
    // With set_to_none it launches nothing; its time is the loop over the parameters.
    if (!is_zero_grad(range) || range.kernels == 0) continue;
    if (!is_visible(trace, range.kernel_time + range.idle)) continue;
    cases.push_back({range.name, describe(trace, range)});
  }
  return cases;
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace training_loop_zeroed_gradients_in_trace

}  // namespace rooftile
