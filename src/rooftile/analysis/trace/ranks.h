// What the ranks of one job tell about each other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

// Of one rank, what the others are compared with.
struct RankFacts {
  std::string file;
  TimeBreakdown time;
  std::vector<Seconds> steps;
  std::vector<CollectiveUse> collectives;
};

struct RankRow {
  std::int64_t rank = 0;
  std::string file;
  Seconds span, compute, exposed_communication;
  // In collectives that all ranks took part in: beyond the time of the rank that came last, which
  // alone shows what the transfer takes.
  Seconds waiting;
};

struct RankComparison {
  std::vector<RankRow> rows;     // by rank
  double compute_imbalance = 1;  // largest compute time over the mean
  std::int64_t slowest = 0;      // index into rows: the others wait for it most
  Seconds waiting;               // mean over ranks
  std::int64_t matched_collectives = 0, unmatched_collectives = 0;  // runs, of the first rank
};

// Ranks by number; merging is associative and commutative, and a rank that comes twice is kept
// once, the longer recording of the two.
class RankSet {
 public:
  void add(const TraceSummary& summary);
  void merge(const RankSet& other);
  std::size_t size() const { return ranks_.size(); }
  // Ranks beside each other; no rows for less than two.
  RankComparison compare() const;

 private:
  using Key = std::pair<std::int64_t, std::string>;  // rank; or -1 and the file, where unknown

  void add(const Key& key, const RankFacts& facts);

  std::map<Key, RankFacts> ranks_;
};

}  // namespace rooftile
