#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/host_copies.h"
#include "rooftile/analysis/trace/use_groups.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace input_pipeline_copies_alone_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Copies from pinned host memory to the GPU, as loaders with `pin_memory=True` make them, on the stream
that computes, while nothing does, for a visible share of the time. Copies from pageable memory, and those that
the host waits for, have rules of their own.

## Why it costs time
The copy engine works beside the kernels. A copy on the stream that computes has to end before the
step begins.

## How to fix
Copy the next batch on a stream of its own while this one is computed, and let the computing stream wait
for that copy. Send fewer bytes: pixels as uint8 and converted on the GPU, 16-bit floats, indices as
int32. A program without PyTorch keeps arrays that stay the same on the GPU; with OpenACC or OpenMP a data
region around the loop does.

## How the saving is estimated
High: the time in which the GPU only copies, as far as computation or the host's work is long enough to
hide it. Half is assumed likely, 0 is the low end: what can be copied ahead depends on the program.

## When not to
- Copies on a stream of their own are not reported, though computation may wait for them.
- The next batch takes its memory on the GPU a second time.
- Where the data of the next step depends on this one's result.

## Evidence
- PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()".
- NVIDIA CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation".
)md";

constexpr double kMinShare = threshold::kPartlyShowsInARun;  // of the window
constexpr double kSlowLink = 0.4;  // of the link's rate: other copies, or fewer lanes

// A program that copies by itself may send the same arrays in each round, and has no batches.
Fix propose(const TraceSummary& trace) {
  if (!uses_torch(trace)) {
    return {
        "Keep what stays the same from round to round on the GPU (OpenACC, OpenMP: a data region "
        "around the loop), and copy what the next round needs on a stream of its own while this "
        "one is computed",
        Exactness::bit_exact};
  }
  return {
      "Copy the next batch on a stream of its own while this one is computed, and send fewer bytes "
      "(uint8 pixels, 16-bit floats)",
      Exactness::bit_exact};
}

Finding describe(const RuleInput& input, const TraceSummary& trace, const HostCopy& upload) {
  const BytesPerSecond rate = upload.bytes / upload.time;
  Finding finding = about_site(
      trace, upload.site,
      fmt::format(
          "{} from pinned host memory on the computing stream: nothing computes meanwhile, for {}",
          count_text(trace, upload.count, "copy"), cost_text(trace, upload.in_line)),
      propose(trace), capped_by_work(trace, {Seconds(0), 0.5 * upload.in_line, upload.in_line}));
  finding.count = upload.count;
  finding.evidence = {Evidence::measured(fmt::format("{} in {} ({})", traffic_text(upload.bytes),
                                                     time_text(upload.time), rate_text(rate)))};
  const auto& link = input.device().pcie_bandwidth;
  if (link && rate < kSlowLink * *link) {
    finding.evidence.push_back(Evidence::estimated(fmt::format(
        "the link carries up to {}: fewer lanes, another memory node, or pieces too small",
        rate_text(*link))));
  }
  return finding;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, [&](const TraceSummary& trace) {
    std::vector<TraceCase> cases;
    for (const HostCopy& upload : uploads(trace)) {
      if (upload.pageable || trace.kernels == 0 || upload.time <= Seconds(0)) continue;
      if (upload.in_line < kMinShare * trace.time.span) continue;
      add_if_visible(trace, upload.site.op + place_text(upload.site),
                     describe(input, trace, upload), cases);
    }
    return cases;
  });
}

}  // namespace input_pipeline_copies_alone_rule

extern const Rule input_pipeline_copies_alone{
    .id = "input_pipeline/copies-alone",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Copies from pinned memory run while nothing computes",
    .doc = input_pipeline_copies_alone_rule::kDoc,
    .in_traces = input_pipeline_copies_alone_rule::check};

}  // namespace rooftile
