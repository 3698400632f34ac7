#include "rooftile/analysis/bound_share.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

OpAnalysis waiting(Bound bound, double seconds) {
  OpAnalysis op;
  op.time.emplace();
  op.time->bound = bound;
  op.time->time = {Seconds(seconds / 2), Seconds(seconds), Seconds(seconds * 2)};
  return op;
}

Op run(std::int64_t count) {
  Op op;
  op.count = count;
  return op;
}

TEST(BoundShare, CountsAllRunsOfAnOperation) {
  Workload workload;
  workload.ops = {run(3), run(1), run(2), run(2)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::math, 1), waiting(Bound::memory, 5), waiting(Bound::latency, 0.5),
                  waiting(Bound::communication, 0.5)};
  // 3 s of math, 5 of memory, 1 of latency, 1 of communication: 10 s.
  EXPECT_EQ(bound_share(workload, analysis), (BoundShare{0.3, 0.5, 0.1, 0.1}));
}

TEST(BoundShare, LeavesOutOperationsWithoutATime) {
  Workload workload;
  workload.ops = {run(1), run(100)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::memory, 2), OpAnalysis{}};
  EXPECT_EQ(bound_share(workload, analysis), (BoundShare{0, 1, 0, 0}));
}

TEST(BoundShare, RecordedTimeOfAnUnknownOperationIsOther) {
  Workload workload;
  workload.ops = {run(1), run(1)};
  Analysis analysis;
  analysis.ops = {waiting(Bound::math, 4), OpAnalysis{}};
  analysis.ops[0].measured = Seconds(3);
  analysis.ops[1].measured = Seconds(1);
  EXPECT_EQ(bound_share(workload, analysis), (BoundShare{0.75, 0, 0, 0.25}));
}

TEST(BoundShare, NothingIsKnownWithoutTimes) {
  Workload workload;
  workload.ops = {run(1)};
  Analysis analysis;
  analysis.ops = {OpAnalysis{}};
  EXPECT_EQ(bound_share(workload, analysis), BoundShare{});
}

}  // namespace
}  // namespace rooftile
