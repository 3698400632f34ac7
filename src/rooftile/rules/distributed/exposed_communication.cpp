#include <fmt/format.h>

#include <algorithm>

#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_exposed_communication_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Collectives that run while nothing computes, when they take a visible share of the step.

## Why it costs time
A collective beside computation is nearly free. Alone it adds to the step, and so does the waiting
for other ranks, which a collective's run time includes.

## How to fix
Data-parallel training: `no_sync()` on all but the last step of gradient accumulation, larger buckets
on fast links, smaller ones when the last bucket comes late, gradients reduced in bf16. Where the first
reduction begins late in the backward pass, the buckets wait for a gradient that comes last: define
modules in the order in which the forward pass uses them, and leave out `find_unused_parameters`, with
which DDP keeps the order of definition. Sharded
training: prefetch the next layer's weights. Tensor-parallel products cannot hide their
all-reduce in the same way: use fewer ranks per group or sequence parallelism.

## How the saving is estimated
High: all exposed time, less what several traces show to be waiting for other ranks, which other
rules tell of. The low end is 0: what can overlap depends on the program. Half is assumed likely, but of
small messages that take long only what they would take over a slow link (1 GB/s).

## When not to
- Some of it has no work to hide behind, such as the last bucket of the gradients.
- A trace of a few steps may contain the first step, in which NCCL connects.

## Evidence
- PyTorch Performance Tuning Guide, "Distributed optimizations".
- PyTorch DDP note, "Internal Design": buckets are reduced while the backward pass goes on, in the
  order of the buckets' indices; the reverse of the order of `model.parameters()` should be about the
  order in which gradients come.
- PyTorch Performance Tuning Guide, "Match the order of layers in constructors and during the
  execution if using DistributedDataParallel(find_unused_parameters=True)".
)md";

constexpr double kMinShare = 0.02;
constexpr std::size_t kMostTold = 3;
// Of the backward pass. In order, three buckets of equal size begin at a third.
constexpr double kLate = 0.6;
constexpr std::int64_t kFewestBuckets = 3;
constexpr double kMostElementBytes = 4;

Seconds mean_waiting(const RuleInput& input, const TraceSummary& trace) {
  const std::vector<Seconds> waiting = waiting_for_ranks(input.workload.traces);
  const auto rank = static_cast<std::size_t>(&trace - input.workload.traces.begin());
  return rank < waiting.size() ? waiting[rank] : Seconds(0);
}

std::string name_of(const CollectiveUse& use) {
  return use.shape.name.empty() ? short_kernel_name(use.kernel) : use.shape.name;
}

std::vector<std::string> largest(const TraceSummary& trace) {
  std::vector<const CollectiveUse*> uses;
  for (const CollectiveUse& use : trace.collectives) uses.push_back(&use);
  std::sort(uses.begin(), uses.end(),
            [](const CollectiveUse* a, const CollectiveUse* b) { return a->exposed > b->exposed; });
  std::vector<std::string> lines;
  for (const CollectiveUse* use : uses) {
    if (lines.size() == kMostTold || use->exposed <= Seconds(0)) break;
    lines.push_back(fmt::format("measured: {} {}: {} exposed of {}", name_of(*use),
                                count_text(trace, window_count(trace, use->count), "run"),
                                duration_text(use->exposed), duration_text(use->time)));
  }
  return lines;
}

bool gathers_weights(const TraceSummary& trace) {
  return std::any_of(trace.collectives.begin(), trace.collectives.end(), [](const auto& use) {
    return use.shape.name.find("all_gather") != std::string::npos ||
           use.kernel.find("AllGather") != std::string::npos;
  });
}

// The part of the backward pass that has gone by when the first of its buckets is reduced.
double wait_for_first_bucket(const GradientReductions& gradients) {
  const bool tells = gradients.passes > 0 && gradients.backward > Seconds(0) &&
                     gradients.reductions >= kFewestBuckets * gradients.passes;
  return tells ? gradients.before_first / gradients.backward : 0;
}

Fix propose(const TraceSummary& trace) {
  if (gathers_weights(trace)) {
    return {
        "Prefetch the next layer's weights while this one computes (FSDP prefetch settings), "
        "and shard within the fast links",
        Exactness::exact_arithmetic};
  }
  if (wait_for_first_bucket(trace.gradients) > kLate) {
    return {
        "Let the first bucket be ready early: define modules in the order in which the forward "
        "pass uses them, without find_unused_parameters",
        Exactness::exact_arithmetic};
  }
  return {
      "Reduce gradients once per accumulated step (no_sync()), tune bucket_cap_mb, and let the "
      "reduction overlap the backward pass",
      Exactness::exact_arithmetic};
}

// Generous times of the messages alone, over slow links; empty where a size is not recorded.
std::optional<Seconds> plausible_transfer(const TraceSummary& trace) {
  constexpr Seconds kSlowestStart = microseconds(100);
  constexpr BytesPerSecond kSlowLink(1e9);
  Seconds time;
  for (const CollectiveUse& use : trace.collectives) {
    const std::int64_t elements = std::max(use.shape.in_elements, use.shape.out_elements);
    if (elements <= 0) return std::nullopt;
    const Bytes bytes(kMostElementBytes * static_cast<double>(elements));
    time += (kSlowestStart + bytes / kSlowLink) * static_cast<double>(use.count);
  }
  return time * window_part(trace);
}

std::vector<Finding> check(const RuleInput& input) {
  return judge_ranks(input, [&](const TraceSummary& trace) -> std::vector<TraceCase> {
    const Seconds exposed = trace.time.exposed_communication;
    const Seconds waiting = std::min(exposed, mean_waiting(input, trace));
    const Seconds transfer = exposed - waiting;
    const Seconds plausible = std::min(transfer, plausible_transfer(trace).value_or(transfer));
    const bool mostly_waits = plausible < 0.5 * transfer;
    if (transfer < kMinShare * trace.time.span) return {};
    Finding finding = about_trace(
        trace,
        fmt::format("{} of communication is exposed ({:.0f} % of all communication){}",
                    cost_text(trace, exposed), 100 * (exposed / trace.time.communication),
                    mostly_waits ? "; the messages are small, so most of it is waiting for ranks "
                                   "that come later"
                                 : ""),
        propose(trace), Range<Seconds>{Seconds(0), 0.5 * plausible, transfer});
    finding.evidence = largest(trace);
    if (const double late = wait_for_first_bucket(trace.gradients); late > kLate) {
      const GradientReductions& gradients = trace.gradients;
      finding.evidence.push_back(fmt::format(
          "measured: the first of {} gradient reductions begins when {:.0f} % of the backward pass "
          "have gone by: the buckets are not in the order in which gradients come",
          gradients.reductions / gradients.passes, 100 * late));
    }
    if (waiting > Seconds(0)) {
      finding.evidence.push_back(
          fmt::format("{} of it are waiting for other ranks, not counted", duration_text(waiting)));
    }
    return {{"", std::move(finding)}};
  });
}

}  // namespace distributed_exposed_communication_rule

extern const Rule distributed_exposed_communication{
    .id = "distributed/exposed-communication",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "Communication is exposed: it runs while nothing computes",
    .doc = distributed_exposed_communication_rule::kDoc,
    .check = distributed_exposed_communication_rule::check};

}  // namespace rooftile
