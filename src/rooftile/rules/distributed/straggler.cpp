#include <fmt/format.h>

#include <algorithm>

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
socket.

## How the saving is estimated
Each run of a collective less the shortest run of the same collective among the ranks is waiting, at
the least. The high end is the mean waiting of the other ranks, low is half of it.

## When not to
- Ranks that take turns in being late are jitter, and not reported.
- When the rank also computes longer, the work is unevenly divided: see
  `distributed/rank-imbalance`.

## Evidence
- PyTorch Performance Tuning Guide, "Load-balance workload in a distributed setting".
- Holistic Trace Analysis (facebookresearch), `get_potential_stragglers`.
)md";

constexpr double kAwaited = 0.25;   // its own waiting to that of the others, at the most
constexpr double kExplained = 0.5;  // of the waiting, by longer computation: uneven work

struct Waiting {
  std::size_t straggler = 0;
  Seconds own, others;  // per step; the mean of the others
};

Waiting waiting_of(std::span<const TraceSummary> ranks, const std::vector<Seconds>& waiting) {
  Waiting result;
  Seconds sum;
  result.own = per_step(ranks.front(), waiting.front());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Seconds own = per_step(ranks[i], waiting[i]);
    sum += own;
    if (own < result.own) {
      result.own = own;
      result.straggler = i;
    }
  }
  result.others = (sum - result.own) / static_cast<double>(ranks.size() - 1);
  return result;
}

// Whether the rank's longer computation explains the waiting of the others.
bool computes_longer(std::span<const TraceSummary> ranks, const Waiting& found) {
  Seconds sum;
  for (const TraceSummary& rank : ranks) sum += per_step(rank, rank.time.compute);
  const TraceSummary& straggler = ranks[found.straggler];
  const Seconds own = per_step(straggler, straggler.time.compute);
  const Seconds mean = (sum - own) / static_cast<double>(ranks.size() - 1);
  return own - mean > kExplained * found.others;
}

std::vector<Finding> check(const RuleInput& input) {
  std::span<const TraceSummary> ranks = input.workload.traces;
  const std::vector<Seconds> waiting = waiting_for_ranks(ranks);
  if (waiting.empty()) return {};
  const Waiting found = waiting_of(ranks, waiting);
  const TraceSummary& straggler = ranks[found.straggler];
  if (found.others < kMinTimeShare * pass_time(straggler)) return {};
  if (found.own > kAwaited * found.others || computes_longer(ranks, found)) return {};
  Finding finding = about_trace(
      straggler,
      fmt::format("rank {} is the straggler: {} {} per step for it at the collectives",
                  straggler.rank ? fmt::format("{}", *straggler.rank) : "?",
                  ranks.size() == 2 ? "the other rank waits"
                                    : fmt::format("the other {} ranks wait", ranks.size() - 1),
                  duration_text(found.others)),
      {"Look at what this rank's host does before the collectives: loader, garbage collection, "
       "logging, CPU binding",
       Exactness::not_applicable});
  finding.saving = Range<Seconds>{0.5 * found.others, found.others, found.others};
  finding.evidence = {
      "measured: run times of the same collectives on all ranks" +
      (found.own > Seconds(0)
           ? fmt::format("; the straggler itself waits {} per step", duration_text(found.own))
           : std::string())};
  return {finding};
}

}  // namespace distributed_straggler_rule

extern const Rule distributed_straggler{.id = "distributed/straggler",
                                        .level = Level::warning,
                                        .cause = Cause::none,
                                        .summary = "Ranks wait for a straggler",
                                        .doc = distributed_straggler_rule::kDoc,
                                        .check = distributed_straggler_rule::check};

}  // namespace rooftile
