#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_gradients_copied_to_buckets_in_trace {

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const auto copies = std::ranges::find(trace.ranges, kCopiesOutOfBucket, &RangeUse::name);
  if (copies == trace.ranges.end() || copies->kernels == 0) return {};
  const Seconds time = copies->kernel_time + copies->idle;
  if (!is_visible(trace, time)) return {};
  Range<Seconds> gain =
      gain_of_kernel_time(trace, {Seconds(), copies->kernel_time, copies->kernel_time});
  gain += Range<Seconds>{0.5 * copies->idle, copies->idle, copies->idle};
  Finding finding = about_site(
      trace, copies->site,
      fmt::format(
          "DistributedDataParallel copies gradients back out of its buckets, in {}: {} with "
          "the idle time that launching them causes",
          count_text(trace, copies->kernels, "transfer"), cost_text(trace, time)),
      {"Pass gradient_as_bucket_view=True to DistributedDataParallel: the gradients then live in "
       "the buckets",
       Exactness::bit_exact},
      gain);
  finding.count = copies->kernels;
  finding.evidence = {
      Evidence::measured(fmt::format("{} of copies; the GPU idles for {} while they are launched",
                                     cost_text(trace, copies->kernel_time),
                                     cost_text(trace, copies->idle))),
      Evidence::published(
          "PyTorch documentation, DistributedDataParallel, gradient_as_bucket_view")};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  return judge_ranks(ranks, judge);
}

}  // namespace distributed_gradients_copied_to_buckets_in_trace

}  // namespace rooftile
