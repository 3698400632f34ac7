#include <fmt/format.h>

#include <algorithm>

#include "rooftile/analysis/trace/collectives.h"
#include "rooftile/base/quantity_text.h"
#include "rooftile/base/text.h"
#include "rooftile/rules/thresholds.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_straggler_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
A rank, or a few that take turns, that arrives last at the collectives although it computes no longer than the
others: the same collectives run long on the other ranks and short on this one. It needs the traces of several ranks.

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

Of four ranks or more a quarter may be stragglers by turns, and count together.

## When not to
- Where all ranks take turns in being late it is jitter, and not reported.
- A rank that is late once or twice, as while NCCL connects or another rank loads kernels, is no straggler.
- When the rank also computes longer, the work is unevenly divided: see
  `distributed/rank-imbalance`.

## Evidence
- PyTorch Performance Tuning Guide, "Load-balance workload in a distributed setting".
- Holistic Trace Analysis (facebookresearch), `get_potential_stragglers`.
)md";

constexpr double kAwaited = 0.25;             // its own waiting to that of the others, at the most
constexpr double kExplained = 0.5;            // of the waiting, by longer computation: uneven work
constexpr double kMostly = threshold::kMost;  // of the collectives, at which it is the last
constexpr double kRecurring = 0.25;           // of the gain, beside the two longest waits
constexpr std::size_t kFewOf = 4;             // ranks: at most one of so many is a straggler

// The one more rank with which most is gained.
LateRanks with_one_more(std::span<const TraceSummary> ranks, const LateRanks& found) {
  LateRanks best;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (std::ranges::find(found.ranks, rank) != found.ranks.end()) continue;
    std::vector<std::size_t> late = found.ranks;
    late.push_back(rank);
    LateRanks cost = cost_of_late(ranks, std::move(late));
    if (best.ranks.empty() || cost.gain > best.gain) best = std::move(cost);
  }
  std::ranges::sort(best.ranks);
  return best;
}

Seconds mean_compute(std::span<const TraceSummary> ranks, const LateRanks& found, bool of_late) {
  Seconds sum;
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool is_late = std::ranges::find(found.ranks, rank) != found.ranks.end();
    if (is_late != of_late) continue;
    sum += per_step(ranks[rank], ranks[rank].time.compute);
    ++count;
  }
  return sum / static_cast<double>(count);
}

// Whether their longer computation explains the waiting of the others.
bool compute_longer(std::span<const TraceSummary> ranks, const LateRanks& found) {
  return mean_compute(ranks, found, true) - mean_compute(ranks, found, false) >
         kExplained * found.others;
}

// Ranks that are late: one, or several that take turns. Of many ranks some are always late.
bool are_stragglers(std::span<const TraceSummary> ranks, const LateRanks& found) {
  const bool are_mostly_last =
      static_cast<double>(found.last) >= kMostly * static_cast<double>(found.runs);
  return are_mostly_last && found.own <= kAwaited * found.others &&
         found.recurring >= kRecurring * found.gain &&
         found.gain >= threshold::kReported * pass_time(ranks[found.ranks.front()]) &&
         !compute_longer(ranks, found);
}

std::optional<LateRanks> stragglers_of(std::span<const TraceSummary> ranks) {
  const std::size_t most = std::max<std::size_t>(1, ranks.size() / kFewOf);
  LateRanks found;
  while (found.ranks.size() < most) {
    found = with_one_more(ranks, found);
    if (found.runs > 0 && are_stragglers(ranks, found)) return found;
  }
  return std::nullopt;
}

// Whether most of what it lacks is the GPU busy with work of another process.
bool shares_its_gpu(const TraceSummary& straggler, const LateRanks& found) {
  const auto idle = straggler.time.idle_by_cause.find(IdleCause::unrecorded_work);
  return idle != straggler.time.idle_by_cause.end() &&
         per_step(straggler, idle->second) > kExplained * found.gain;
}

Fix propose(const TraceSummary& straggler, const LateRanks& found) {
  if (shares_its_gpu(straggler, found)) {
    return {
        "Look for another process on this rank's GPU (nvidia-smi): its queued kernels wait for "
        "work that is not in the trace",
        Exactness::not_applicable};
  }
  return {fmt::format("Look at what {} before the collectives: loader, garbage collection, "
                      "logging, CPU binding",
                      found.ranks.size() == 1 ? "this rank's host does" : "these ranks' hosts do"),
          Exactness::not_applicable};
}

std::string message(std::span<const TraceSummary> ranks, const LateRanks& found) {
  std::vector<std::string> names;
  for (const std::size_t rank : found.ranks) {
    names.push_back(ranks[rank].rank ? fmt::format("{}", *ranks[rank].rank) : "?");
  }
  const std::size_t others = ranks.size() - names.size();
  const bool is_one = names.size() == 1;
  return fmt::format(
      "{} {} {}, the last at {} of {} collectives: {} {} per step for {}",
      is_one ? "rank" : "ranks", join(names, ", "),
      is_one ? "is the straggler" : "are stragglers by turns", found.last, found.runs,
      others == 1 ? "the other rank waits" : fmt::format("the other {} ranks wait", others),
      time_text(found.others), is_one ? "it" : "them");
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  if (ranks.size() < 2) return {};
  const std::optional<LateRanks> found = stragglers_of(ranks);
  if (!found) return {};
  const TraceSummary& straggler = ranks[found->ranks.front()];
  Finding finding = about_trace(straggler, message(ranks, *found), propose(straggler, *found));
  finding.saving = Range<Seconds>{0.5 * found->gain, found->gain, found->gain};
  const bool is_one = found->ranks.size() == 1;
  finding.evidence = {Evidence::measured(
      "run times of the same collectives on all ranks" +
      (found->own > Seconds(0)
           ? fmt::format("; {} {} per step for others",
                         is_one ? "the straggler itself waits" : "the later of them waits",
                         time_text(found->own))
           : std::string()))};
  if (ranks.size() - found->ranks.size() > 1) {
    finding.evidence.push_back(Evidence::measured(
        fmt::format("the last of the other ranks comes {} per step earlier, which bounds the gain",
                    time_text(found->gain))));
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
