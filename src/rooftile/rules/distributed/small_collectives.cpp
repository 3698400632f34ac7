#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_small_collectives_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Many collectives of small messages, less than 256 KiB each on average, one directly behind the other while
nothing computes. What computation lies between may depend on one and give the input of the next: those
are not counted.

## Why it costs time
A small collective takes some ten microseconds however little it moves: the ranks have to find each
other first. A hundred of them cost what one of hundred times the size does not.

## How to fix
Join them: one flat buffer, larger DDP buckets, `all_reduce_coalesced`, metrics packed into one
tensor and reduced every so many steps. Normalisations that synchronise their statistics in each
layer are rarely worth it at ordinary batch sizes.

## How the saving is estimated
High: of those that follow one another the usual (median) time, less what the bytes take at the rate of the
GPU's links. Low: 0, since some depend on each other. Half is assumed likely.

## When not to
- Reductions whose result the next operation needs cannot wait for others.
- Waiting for other ranks is not counted: joining collectives does not shorten it.

## Evidence
- PyTorch DDP note, "Internal Design": gradients are reduced in buckets because collectives on large
  tensors are more efficient.
)md";

constexpr double kSmall = 256 * 1024;  // bytes; below it NCCL's time hardly depends on the size
constexpr std::int64_t kManyPerStep = 10;

struct Smalls {
  std::int64_t count = 0;
  Seconds time, awaited;
  double bytes = 0;
};

Smalls small_ones(const TraceSummary& trace) {
  Smalls all;
  for (const CollectiveUse& use : trace.collectives) {
    const std::int64_t elements = std::max(use.shape.in_elements, use.shape.out_elements);
    const double bytes =
        static_cast<double>(elements) * static_cast<double>(element_bytes(use.shape.dtype));
    if (bytes <= 0 || bytes >= kSmall) continue;  // 0: not recorded
    if (use.back_to_back == 0 || use.runs.empty()) continue;
    const double count = static_cast<double>(use.back_to_back);
    const Seconds usual = median(use.runs);
    all.count += use.back_to_back;
    all.time += usual * count;
    // What is longer is waiting for another rank.
    all.awaited += std::min(usual * count, use.awaited) * window_part(trace);
    all.bytes += bytes * count;
  }
  return all;
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(
      input.workload.traces, [&](const TraceSummary& trace) -> std::vector<TraceCase> {
        const Smalls smalls = small_ones(trace);
        const double each = static_cast<double>(smalls.count) / recorded_steps(trace);
        if (each < static_cast<double>(kManyPerStep) || !is_visible(trace, smalls.awaited))
          return {};
        const auto& link = input.device().nvlink_bandwidth;
        const Seconds transfer =
            link ? Bytes(smalls.bytes * window_part(trace)) / *link : Seconds(0);
        const Seconds most = std::max(Seconds(0), smalls.awaited - transfer);
        Finding finding = about_trace(
            trace,
            fmt::format(
                "{} of {} on average run one behind the other, and computation waits {} for "
                "them",
                count_text(trace, window_count(trace, smalls.count), "small collective"),
                bytes_text(Bytes(smalls.bytes / static_cast<double>(smalls.count))),
                cost_text(trace, smalls.awaited)),
            {"Join them into a few large collectives (one flat buffer, larger buckets)",
             Exactness::exact_arithmetic},
            Range<Seconds>{Seconds(0), 0.5 * most, most});
        finding.count = smalls.count;
        finding.evidence = {Evidence::measured(fmt::format(
            "{} each on average, {} in all",
            time_text(smalls.time / static_cast<double>(smalls.count)), time_text(smalls.time)))};
        return {{"", std::move(finding)}};
      });
}

}  // namespace distributed_small_collectives_rule

extern const Rule distributed_small_collectives{
    .id = "distributed/small-collectives",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Many small collectives instead of a few large ones",
    .doc = distributed_small_collectives_rule::kDoc,
    .in_traces = distributed_small_collectives_rule::check};

}  // namespace rooftile
