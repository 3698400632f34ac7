#include "rooftile/analysis/trace/ranks.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TraceSummary rank_summary(std::int64_t rank, double compute_ms, std::vector<Seconds> runs) {
  TraceSummary summary;
  summary.rank = rank;
  summary.files = {"rank" + std::to_string(rank)};
  summary.time.compute = milliseconds(compute_ms);
  summary.time.span = milliseconds(100);
  CollectiveUse use;
  use.kernel = "ncclDevKernel_AllReduce";
  use.count = static_cast<std::int64_t>(runs.size());
  use.runs = std::move(runs);
  summary.collectives = {use};
  return summary;
}

// Rank 1 comes last to both: 2 and 3 ms are the transfers, the others wait 6 + 1 and 4 + 5 ms.
TEST(Ranks, MeasureWhatOthersWaitForTheLast) {
  RankSet set;
  set.add(rank_summary(0, 50, {milliseconds(8), milliseconds(4)}));
  set.add(rank_summary(1, 70, {milliseconds(2), milliseconds(3)}));
  set.add(rank_summary(2, 60, {milliseconds(6), milliseconds(8)}));
  const RankComparison found = set.compare();
  ASSERT_EQ(found.rows.size(), 3U);
  EXPECT_NEAR(found.rows[0].waiting.value(), 7e-3, 1e-12);
  EXPECT_NEAR(found.rows[1].waiting.value(), 0, 1e-12);
  EXPECT_NEAR(found.rows[2].waiting.value(), 9e-3, 1e-12);
  EXPECT_EQ(found.slowest, 1);
  EXPECT_NEAR(found.compute_imbalance, 70.0 / 60, 1e-12);
  EXPECT_EQ(found.matched_collectives, 2);
}

TEST(Ranks, MergeInAnyGrouping) {
  const auto single = [](std::int64_t rank, double compute) {
    RankSet set;
    set.add(rank_summary(rank, compute, {milliseconds(compute)}));
    return set;
  };
  RankSet left = single(0, 1);
  left.merge(single(1, 2));
  left.merge(single(2, 4));
  RankSet right = single(2, 4);
  RankSet inner = single(1, 2);
  inner.merge(right);
  inner.merge(single(0, 1));
  ASSERT_EQ(left.size(), 3U);
  ASSERT_EQ(inner.size(), 3U);
  EXPECT_EQ(left.compare().waiting, inner.compare().waiting);
  EXPECT_EQ(left.compare().rows[2].waiting, inner.compare().rows[2].waiting);
}

TEST(Ranks, OneAloneOrUnlikeRunsCompareNothing) {
  RankSet set;
  set.add(rank_summary(0, 50, {milliseconds(8)}));
  EXPECT_TRUE(set.compare().rows.empty());
  set.add(rank_summary(1, 50, {milliseconds(8), milliseconds(1)}));
  EXPECT_EQ(set.compare().unmatched_collectives, 1);
}

}  // namespace
}  // namespace rooftile
