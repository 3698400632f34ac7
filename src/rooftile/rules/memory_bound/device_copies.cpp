#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace memory_bound_device_copies_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Copies from GPU memory to the same GPU's memory (`Memcpy DtoD`) that take 3 per cent of the step or more
while no kernel runs.

## Why it costs time
A copy computes nothing: it reads and writes each byte once, at the bandwidth of the memory. PyTorch uses
one where a tensor is cloned, made contiguous or assigned to a slice.

## How to fix
Write the result where it is needed: `out=`, operations in place, a buffer that is allocated once and
filled by slices. Use views where the layout allows it, and drop `clone()` and `contiguous()` that nothing
needs.

## How the saving is estimated
High: the time of the copies while no kernel runs. Low: 0, since some may be needed. Half is assumed likely.

## When not to
- Copies into the static inputs of CUDA graphs are part of how graphs work.
- Snapshots of weights (averages, checkpoints) need them.

## Evidence
- NVIDIA, CUDA C++ Best Practices Guide, "Memory Optimizations": device memory's bandwidth bounds copies.
- PyTorch Performance Tuning Guide: operations in place and preallocated memory.
)md";

constexpr double kMinShare = threshold::kPartlyShowsInARun;  // of the window

// DDP's copies between gradients and buckets have a finding that names their remedy.
bool is_judged(const CopyUse& copy) {
  return copy.shape.kind == CopyKind::device_to_device && !contains(copy.site.op, "reducer") &&
         !contains(copy.site.op, "bucket");
}

struct Copies {
  Seconds exposed;
  std::int64_t count = 0;
  double bytes = 0;
  const CopyUse* largest = nullptr;
};

Copies copies_of(const TraceSummary& trace) {
  Copies all;
  for (const CopyUse& copy : trace.copies) {
    if (!is_judged(copy)) continue;
    all.exposed += copy.exposed * window_part(trace);
    all.count += copy.count;
    all.bytes += static_cast<double>(copy.shape.bytes);
    if (all.largest == nullptr || copy.exposed > all.largest->exposed) all.largest = &copy;
  }
  return all;
}

Fix propose(const TraceSummary& trace) {
  if (uses_torch(trace)) {
    return {
        "Write results where they are needed (out=, in place, slices of one buffer) instead of "
        "cloning, concatenating or making them contiguous",
        Exactness::bit_exact};
  }
  return {
      "Let the kernels read and write the buffers in place, or swap pointers instead of copying",
      Exactness::bit_exact};
}

std::vector<TraceCase> judge(const TraceSummary& trace) {
  const Copies copies = copies_of(trace);
  if (copies.largest == nullptr || copies.exposed < kMinShare * trace.time.span) return {};
  Finding finding = about_site(
      trace, copies.largest->site,
      fmt::format("copies within GPU memory take {} in {}", cost_text(trace, copies.exposed),
                  count_text(trace, window_count(trace, copies.count), "copy")),
      propose(trace),
      gain_of_kernel_time(trace, {Seconds(0), 0.5 * copies.exposed, copies.exposed}));
  finding.count = copies.count;
  const std::string place = place_text(copies.largest->site);
  finding.evidence = {Evidence::measured(
      fmt::format("{} in all; the largest part{}{} takes {}", traffic_text(Bytes(copies.bytes)),
                  place.empty() ? "" : ", at ", place,
                  cost_text(trace, copies.largest->exposed * window_part(trace))))};
  note_pace(trace, finding);
  return {{"", std::move(finding)}};
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input.workload.traces, judge);
}

}  // namespace memory_bound_device_copies_rule

extern const Rule memory_bound_device_copies{
    .id = "memory_bound/device-copies",
    .level = Level::advice,
    .cause = Cause::none,
    .summary = "Copies within GPU memory take a visible share of the step",
    .doc = memory_bound_device_copies_rule::kDoc,
    .in_traces = memory_bound_device_copies_rule::check};

}  // namespace rooftile
