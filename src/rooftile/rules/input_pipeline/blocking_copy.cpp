#include <fmt/format.h>

#include "rooftile/analysis/trace/uploads.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace {

constexpr std::string_view kDoc = R"md(
## What it finds
Copies from pinned host memory to the GPU for which the host waits, so that the GPU has nothing to
do during or after them.

## Why it costs time
The copy itself could run beside the kernels. Because the host waits for its end, the launches of
the next operators come late.

## How to fix
`.to(device, non_blocking=True)`. To hide the copy too, fetch the next batch on a stream of its own
while the step computes.

## How the saving is estimated
The GPU's idle time that follows from the wait, and at the high end also the time in which the GPU
only copies.

## When not to
- Copies from the device to the host are another matter: with `non_blocking` the values are not
  there yet when the call returns.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
- ML Engineering book (S. Bekman), DataLoader benchmark: 0.522 s with pinned batches, 0.459 s when
  they are also copied with non_blocking.
)md";

Finding describe(const TraceSummary& trace, const Upload& upload) {
  const Range<Seconds> idle = gain_of_idle_time(upload.idle);
  Finding finding =
      about_site(trace, upload.site,
                 fmt::format("the host waits for {} to the GPU, and the GPU then idles {}",
                             count_text(trace, window_count(trace, upload.count), "copy"),
                             cost_text(trace, upload.idle)),
                 {"Copy with .to(device, non_blocking=True); the batches are pinned already",
                  Exactness::bit_exact},
                 Range<Seconds>{idle.low, idle.expected, idle.high + upload.exposed});
  finding.count = upload.count;
  finding.evidence = {fmt::format(
      "measured: the host is blocked for {}; the GPU copies alone for {} and idles for {}",
      duration_text(upload.blocked), duration_text(upload.exposed), duration_text(upload.idle))};
  return finding;
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  std::vector<TraceCase> cases;
  for (const Upload& upload : uploads(trace)) {
    if (upload.pageable || !is_visible(trace, upload.idle)) continue;
    cases.push_back({upload.site.op + place_text(upload.site), describe(trace, upload)});
  }
  return cases;
}

std::vector<Finding> check(const RuleInput& input) { return judge_ranks(input, judge); }

}  // namespace

extern const Rule input_pipeline_blocking_copy{.id = "input_pipeline/blocking-copy",
                                               .level = Level::warning,
                                               .cause = Cause::none,
                                               .summary = "The host waits for copies to the GPU",
                                               .doc = kDoc,
                                               .check = check};

}  // namespace rooftile
