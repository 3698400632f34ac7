#include <fmt/format.h>

#include "rooftile/base/text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_unaligned_collectives_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
All-gathers and reduce-scatters whose messages are not a multiple of 16 bytes, when they take a
visible share of the step in which nothing computes.

## Why it costs time
NCCL loads 16 bytes at a time where every rank's part starts at a 16-byte address, and smaller pieces
else. With an odd message the parts of all ranks but the first are misaligned.

## How to fix
Pad the flat buffers to a multiple of 16 bytes per rank.

## How the saving is estimated
High: seven tenths of the exposed time, the ratio of the one published pair of times. Half of that is
assumed likely. Low: 0, since it depends on protocol and link.

## When not to
- All-reduces split their buffer by themselves and are not reported.

## Evidence
- Horovod pull request 3727: an all-gather of 6,292,992 bytes takes less than 2 ms, one of 6,294,530
  bytes more than 7 ms.
- NVIDIA/nccl issue 413: the protocols Simple and LL128 depend on alignment, LL does not.
- NVIDIA/nccl-tests issue 97: offsets that are not multiples of 16 bytes exclude 16-byte loads.
)md";

constexpr double kMostSaved = 0.7;  // 2 instead of 7 ms: Horovod pull request 3727

bool has_parts(const CollectiveUse& use) {
  const std::string name = lower(use.shape.name + use.kernel);
  return name.find("gather") != name.npos || name.find("scatter") != name.npos;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::int64_t count = 0, all = 0;
  Seconds awaited;
  for (const CollectiveUse& use : trace.collectives) {
    if (!has_parts(use)) continue;
    all += use.count;
    if (use.misaligned == 0) continue;
    count += use.misaligned;
    awaited += use.awaited * window_part(trace);
  }
  if (count == 0 || !is_visible(trace, awaited)) return {};
  Finding finding = about_trace(
      trace,
      fmt::format("the messages of {} are not a multiple of 16 bytes; computation waits {} for "
                  "those",
                  count_text(trace, window_count(trace, count), "collective"),
                  cost_text(trace, awaited)),
      {"Pad the flat buffers to a multiple of 16 bytes per rank", Exactness::exact_arithmetic},
      Range<Seconds>{Seconds(0), 0.5 * kMostSaved * awaited, kMostSaved * awaited});
  finding.count = count;
  finding.evidence = {Evidence::measured(fmt::format("{} of {} such collectives", count, all)),
                      Evidence::published("2 ms aligned, 7 ms misaligned for 6.29 MB",
                                          "Horovod pull request 3727")};
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace distributed_unaligned_collectives_rule

extern const Rule distributed_unaligned_collectives{
    .id = "distributed/unaligned-collectives",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Collective messages are not a multiple of 16 bytes",
    .doc = distributed_unaligned_collectives_rule::kDoc,
    .in_traces = distributed_unaligned_collectives_rule::check};

}  // namespace rooftile
