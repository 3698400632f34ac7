#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_straggler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A rank that arrives last at the collectives although it computes no longer than the others: the same
collectives run long on the other ranks and short on this one. It needs the traces of several ranks.

## Why it costs time
A collective starts to move data when the last rank arrives. What the others spend in it until then
is waiting.

## How to fix
Look at what the host of that rank does before the collective: its data loader, Python garbage
collection, logging or checkpoints on one rank only, a slower CPU or a process bound to the wrong
socket. Where its queued kernels wait for work that is not in the trace, look for another process on
its GPU.

## How the saving is estimated
Each run of a collective less the shortest run of the same collective among the ranks is waiting, at
the least. If the straggler came earlier, the last of the other ranks would be waited for: the high end
is, of each collective at which it is the last, the waiting of the rank before it. Low is half of that.

## When not to
- Ranks that take turns in being late are jitter, and not reported.
- When the rank also computes longer, the work is unevenly divided: see
  `distributed/rank-imbalance`.

## Evidence
- PyTorch Performance Tuning Guide, "Load-balance workload in a distributed setting".
- Holistic Trace Analysis (facebookresearch), `get_potential_stragglers`.
)md";

constexpr double kAwaited = 0.25;             // its own waiting to that of the others, at the most
constexpr double kExplained = 0.5;            // of the waiting, by longer computation: uneven work
constexpr double kMostly = threshold::kMost;  // of the collectives, at which it is the last

// Per step of each rank.
struct Straggler {
  std::size_t rank = 0;
  Seconds gain;         // when it comes with the last of the others
  Seconds own, others;  // waiting; the mean of the others
};

Straggler straggler_of(std::span<const TraceSummary> ranks, const RankWaits& waits) {
  Straggler found;
  Seconds sum;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    sum += per_step(ranks[i], waits.waited[i]);
    const Seconds gain = per_step(ranks[i], waits.delayed[i]);
    if (gain <= found.gain) continue;
    found.gain = gain;
    found.rank = i;
  }
  found.own = per_step(ranks[found.rank], waits.waited[found.rank]);
  found.others = (sum - found.own) / static_cast<double>(ranks.size() - 1);
  return found;
}

// Whether the rank's longer computation explains the waiting of the others.
bool computes_longer(std::span<const TraceSummary> ranks, const Straggler& found) {
  Seconds sum;
  for (const TraceSummary& rank : ranks) sum += per_step(rank, rank.time.compute);
  const TraceSummary& straggler = ranks[found.rank];
  const Seconds own = per_step(straggler, straggler.time.compute);
  const Seconds mean = (sum - own) / static_cast<double>(ranks.size() - 1);
  return own - mean > kExplained * found.others;
}

// Whether most of what it lacks is the GPU busy with work of another process.
bool shares_its_gpu(const TraceSummary& straggler, const Straggler& found) {
  const auto idle = straggler.time.idle_by_cause.find(IdleCause::unrecorded_work);
  return idle != straggler.time.idle_by_cause.end() &&
         per_step(straggler, idle->second) > kExplained * found.gain;
}

Fix propose(const TraceSummary& straggler, const Straggler& found) {
  if (shares_its_gpu(straggler, found)) {
    return {
        "Look for another process on this rank's GPU (nvidia-smi): its queued kernels wait for "
        "work that is not in the trace",
        Exactness::not_applicable};
  }
  return {
      "Look at what this rank's host does before the collectives: loader, garbage collection, "
      "logging, CPU binding",
      Exactness::not_applicable};
}

std::string message(std::span<const TraceSummary> ranks, const RankWaits& waits,
                    const Straggler& found) {
  const TraceSummary& straggler = ranks[found.rank];
  return fmt::format(
      "rank {} is the straggler, the last at {} of {} collectives: {} {} per step for it",
      straggler.rank ? fmt::format("{}", *straggler.rank) : "?", waits.last[found.rank], waits.runs,
      ranks.size() == 2 ? "the other rank waits"
                        : fmt::format("the other {} ranks wait", ranks.size() - 1),
      time_text(found.others));
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  const std::optional<RankWaits> waits = waits_of_ranks(ranks);
  if (!waits) return {};
  const Straggler found = straggler_of(ranks, *waits);
  const TraceSummary& straggler = ranks[found.rank];
  if (found.gain < threshold::kReported * pass_time(straggler)) return {};
  const bool is_mostly_last =
      static_cast<double>(waits->last[found.rank]) >= kMostly * static_cast<double>(waits->runs);
  if (!is_mostly_last || found.own > kAwaited * found.others || computes_longer(ranks, found)) {
    return {};
  }
  Finding finding =
      about_trace(straggler, message(ranks, *waits, found), propose(straggler, found));
  finding.saving = Range<Seconds>{0.5 * found.gain, found.gain, found.gain};
  finding.evidence = {Evidence::measured(
      "run times of the same collectives on all ranks" +
      (found.own > Seconds(0)
           ? fmt::format("; the straggler itself waits {} per step", time_text(found.own))
           : std::string()))};
  if (ranks.size() > 2) {
    finding.evidence.push_back(Evidence::measured(
        fmt::format("the last of the other ranks comes {} per step earlier, which bounds the gain",
                    time_text(found.gain))));
  }
  return {finding};
}

}  // namespace distributed_straggler_rule

extern const Rule distributed_straggler{.id = "distributed/straggler",
                                        .level = Level::warning,
                                        .cause = Cause::none,
                                        .summary = "Ranks wait for a straggler",
                                        .doc = distributed_straggler_rule::kDoc,
                                        .in_any_trace = distributed_straggler_rule::check};

}  // namespace rooftile
