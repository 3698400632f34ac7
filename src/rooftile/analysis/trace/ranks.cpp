#include "rooftile/analysis/trace/ranks.h"

#include <algorithm>
#include <tuple>

namespace rooftile {
namespace {

using CollectiveKey = std::tuple<std::string, CollectiveShape>;  // kernel, what it moves

std::map<CollectiveKey, const CollectiveUse*> collectives_of(const RankFacts& facts) {
  std::map<CollectiveKey, const CollectiveUse*> found;
  for (const CollectiveUse& use : facts.collectives) found[{use.kernel, use.shape}] = &use;
  return found;
}

}  // namespace

void RankSet::add(const Key& key, const RankFacts& facts) {
  const auto [at, is_new] = ranks_.emplace(key, facts);
  if (is_new) return;
  const auto order = [](const RankFacts& f) { return std::tuple(f.time.span, f.file); };
  if (order(at->second) < order(facts)) at->second = facts;
}

void RankSet::add(const TraceSummary& summary) {
  RankFacts facts;
  if (!summary.files.empty()) facts.file = summary.files.front();
  facts.time = summary.time;
  facts.steps = summary.steps.durations;
  facts.collectives = summary.collectives;
  add({summary.rank.value_or(-1), summary.rank ? "" : facts.file}, facts);
}

void RankSet::merge(const RankSet& other) {
  for (const auto& [key, facts] : other.ranks_) add(key, facts);
}

RankComparison RankSet::compare() const {
  RankComparison comparison;
  if (ranks_.size() < 2) return comparison;
  std::vector<std::map<CollectiveKey, const CollectiveUse*>> collectives;
  Seconds compute;
  for (const auto& [key, facts] : ranks_) {
    comparison.rows.push_back({key.first, facts.file, facts.time.span, facts.time.compute,
                               facts.time.exposed_communication, Seconds()});
    collectives.push_back(collectives_of(facts));
    compute += facts.time.compute;
  }
  for (const auto& [key, first] : collectives.front()) {
    std::vector<const CollectiveUse*> uses;
    for (const auto& of_rank : collectives) {
      const auto found = of_rank.find(key);
      if (found != of_rank.end() && found->second->count == first->count) {
        uses.push_back(found->second);
      }
    }
    if (uses.size() < collectives.size()) {
      comparison.unmatched_collectives += first->count;
      continue;
    }
    comparison.matched_collectives += first->count;
    for (std::size_t run = 0; run < first->runs.size(); ++run) {
      Seconds shortest = first->runs[run];
      for (const CollectiveUse* const use : uses) shortest = std::min(shortest, use->runs[run]);
      for (std::size_t rank = 0; rank < uses.size(); ++rank) {
        comparison.rows[rank].waiting += uses[rank]->runs[run] - shortest;
      }
    }
  }
  const auto count = static_cast<double>(comparison.rows.size());
  const auto most =
      std::max_element(comparison.rows.begin(), comparison.rows.end(),
                       [](const RankRow& a, const RankRow& b) { return a.compute < b.compute; });
  if (compute > Seconds()) comparison.compute_imbalance = most->compute / (compute / count);
  const auto least =
      std::min_element(comparison.rows.begin(), comparison.rows.end(),
                       [](const RankRow& a, const RankRow& b) { return a.waiting < b.waiting; });
  comparison.slowest = least - comparison.rows.begin();
  for (const RankRow& row : comparison.rows) comparison.waiting += row.waiting / count;
  return comparison;
}

}  // namespace rooftile
