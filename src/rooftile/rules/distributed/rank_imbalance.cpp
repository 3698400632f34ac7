#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/quantity_text.h"
#include "rooftile/rules/trace_finding.h"

namespace rooftile {
namespace distributed_rank_imbalance_rule {

constexpr std::string_view kDoc = R"md(
## What it finds
Ranks of one job of which one computes more than 1.1 times as long per step as they do on average,
while the others are seen to wait in collectives. It needs the traces of several ranks.

## Why it costs time
Every step lasts as long as that of the slowest rank. The others wait for it in the next collective.

## How to fix
Give every rank the same work: batches of a constant number of tokens, samples sorted or bucketed by
length, layers divided by time instead of by number, the same number of experts' tokens.

## How the saving is estimated
High: the longest compute time less the mean. It cannot be more than the mean exposed communication,
in which the waiting shows. Low: half of that.

## When not to
- Pipeline stages differ by design; their first and last stages have embeddings and the loss.
- Steps recorded at different times may differ in their data.

## Evidence
- PyTorch Performance Tuning Guide, "Load-balance workload in a distributed setting".
)md";

constexpr double kImbalance = 1.1;  // of the longest to the mean

struct Spread {
  std::size_t slowest = 0;
  Seconds longest, mean, exposed;  // per step; mean exposed communication of the other ranks
};

Spread spread_of(std::span<const TraceSummary> ranks) {
  Spread spread;
  Seconds sum, exposed;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Seconds compute = per_step(ranks[i], ranks[i].time.compute);
    sum += compute;
    exposed += per_step(ranks[i], ranks[i].time.exposed_communication);
    if (compute > spread.longest) {
      spread.longest = compute;
      spread.slowest = i;
    }
  }
  const double count = static_cast<double>(ranks.size());
  spread.mean = sum / count;
  const TraceSummary& slowest = ranks[spread.slowest];
  exposed -= per_step(slowest, slowest.time.exposed_communication);
  spread.exposed = exposed / (count - 1);
  return spread;
}

bool is_one_job(std::span<const TraceSummary> ranks) {
  return ranks.size() > 1 && std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
           return rank.world_size == ranks.front().world_size &&
                  rank.steps.source != StepSource::none && !rank.collectives.empty();
         });
}

std::vector<Finding> check(std::span<const TraceSummary> ranks) {
  if (!is_one_job(ranks)) return {};
  const Spread spread = spread_of(ranks);
  const TraceSummary& slowest = ranks[spread.slowest];
  if (spread.longest <= kImbalance * spread.mean) return {};
  const Seconds gain = std::min(spread.longest - spread.mean, spread.exposed);
  if (gain < threshold::kReported * pass_time(slowest)) return {};
  Finding finding = about_trace(
      slowest,
      fmt::format(
          "rank {} computes {} per step, {:.2f} times the mean of {} ranks; the others wait",
          slowest.rank ? fmt::format("{}", *slowest.rank) : "?", time_text(spread.longest),
          spread.longest / spread.mean, ranks.size()),
      {"Give every rank the same work: constant tokens per batch, samples bucketed by length",
       Exactness::changes_training});
  finding.saving = Range<Seconds>{0.5 * gain, gain, gain};
  finding.evidence = {Evidence::measured(
      fmt::format("mean compute {} per step; the other ranks communicate alone for {} per step",
                  time_text(spread.mean), time_text(spread.exposed)))};
  return {finding};
}

}  // namespace distributed_rank_imbalance_rule

extern const Rule distributed_rank_imbalance{
    .id = "distributed/rank-imbalance",
    .level = Level::warning,
    .cause = Cause::none,
    .summary = "One rank computes longer than the others, which wait for it",
    .doc = distributed_rank_imbalance_rule::kDoc,
    .in_any_trace = distributed_rank_imbalance_rule::check};

}  // namespace rooftile
