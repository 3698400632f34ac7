#include "rooftile/analysis/trace/collectives.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace rooftile {
namespace {

TraceSummary rank_of(std::vector<Seconds> runs) {
  TraceSummary trace;
  trace.time.span = milliseconds(100);
  CollectiveUse use;
  use.kernel = "ncclDevKernel_AllReduce";
  use.count = static_cast<std::int64_t>(runs.size());
  use.runs = std::move(runs);
  trace.collectives = {use};
  return trace;
}

TEST(Collectives, WaitingOfRanksIsWhatTheShortestRunDoesNotTake) {
  const std::vector<TraceSummary> ranks = {rank_of({milliseconds(5), milliseconds(1)}),
                                           rank_of({milliseconds(1), milliseconds(3)})};
  const auto waits = waits_of_ranks(ranks);
  EXPECT_EQ(waits, (std::vector<Seconds>{milliseconds(4), milliseconds(2)}));
  EXPECT_TRUE(waits_of_ranks(std::vector{ranks[0]}).empty());
  EXPECT_TRUE(waits_of_ranks(std::vector{ranks[0], rank_of({milliseconds(1)})}).empty());
}

TEST(Collectives, TheRankBeforeTheLastBoundsWhatTheLastCosts) {
  // Rank 2 is the last twice: rank 1 comes 1 ms before it, rank 0 then 2 ms. Rank 0 is the last of
  // the third run, by 4 ms.
  const std::vector<TraceSummary> ranks = {
      rank_of({milliseconds(9), milliseconds(3), milliseconds(1)}),
      rank_of({milliseconds(2), milliseconds(8), milliseconds(5)}),
      rank_of({milliseconds(1), milliseconds(1), milliseconds(7)})};
  EXPECT_NEAR(to_milliseconds(cost_of_late(ranks, {0}).gain), 4, 1e-9);
  EXPECT_NEAR(to_milliseconds(cost_of_late(ranks, {1}).gain), 0, 1e-9);
  const LateRanks last = cost_of_late(ranks, {2});
  EXPECT_NEAR(to_milliseconds(last.gain), 1 + 2, 1e-9);
  EXPECT_NEAR(to_milliseconds(last.own), 6, 1e-9);
  EXPECT_NEAR(to_milliseconds(last.others), (8 + 1) / 2. + (2 + 7) / 2. + (0 + 4) / 2., 1e-9);
  EXPECT_EQ(last.last, 2);
  EXPECT_EQ(last.runs, 3);
}

TEST(Collectives, WhatRecursIsBesideTheTwoLongestWaits) {
  const std::vector<TraceSummary> ranks = {
      rank_of({milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1)}),
      rank_of({milliseconds(4), milliseconds(101), milliseconds(2), milliseconds(31)})};
  const LateRanks late = cost_of_late(ranks, {0});
  EXPECT_NEAR(to_milliseconds(late.gain), 3 + 100 + 1 + 30, 1e-9);
  EXPECT_NEAR(to_milliseconds(late.recurring), 3 + 1, 1e-9);
}

TEST(Collectives, RanksThatTakeTurnsCostWhatTheOthersWaitForEither) {
  // Ranks 0 and 1 are the last by turns, so that each alone saves only up to the other.
  const std::vector<TraceSummary> ranks = {
      rank_of({milliseconds(1), milliseconds(2)}), rank_of({milliseconds(3), milliseconds(1)}),
      rank_of({milliseconds(9), milliseconds(9)}), rank_of({milliseconds(7), milliseconds(11)})};
  EXPECT_NEAR(to_milliseconds(cost_of_late(ranks, {0}).gain), 2, 1e-9);
  const LateRanks both = cost_of_late(ranks, {0, 1});
  EXPECT_NEAR(to_milliseconds(both.gain), 6 + 8, 1e-9);
  EXPECT_NEAR(to_milliseconds(both.own), 0, 1e-9);
  EXPECT_NEAR(to_milliseconds(both.others), (8 + 6) / 2. + (8 + 10) / 2., 1e-9);
  EXPECT_EQ(both.last, 2);
}

TEST(Collectives, KindsAreThoseOfTheNameElseOfTheKernel) {
  const auto kind = [](const char* name, const char* kernel) {
    CollectiveUse use;
    use.shape.name = name;
    use.kernel = kernel;
    return kind_of(use);
  };
  EXPECT_EQ(kind("allreduce", ""), CollectiveKind::all_reduce);
  EXPECT_EQ(kind("_allgather_base", "ncclDevKernel_AllGather_RING_LL"), CollectiveKind::all_gather);
  EXPECT_EQ(kind("alltoall_base_", "ncclKernel_SendRecv_RING"), CollectiveKind::all_to_all);
  EXPECT_EQ(kind("", "void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)"),
            CollectiveKind::all_reduce);
  EXPECT_EQ(kind("", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"),
            CollectiveKind::point_to_point);
  EXPECT_EQ(kind("", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(all)"),
            CollectiveKind::reduce_scatter);
  EXPECT_EQ(kind("", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*)"),
            CollectiveKind::all_reduce);
  EXPECT_EQ(kind("", "userbuffers_fp16"), std::nullopt);
}

// nccl-tests, doc/PERFORMANCE.md: all-reduce 2(n-1)/n, all-gather, reduce-scatter and all-to-all
// (n-1)/n, broadcast and reduce 1.
TEST(Collectives, BusBandwidthIsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_gather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::broadcast, 8), 1);
  CollectiveUse gather;
  gather.shape = {"all_gather_into_tensor", "BFloat16", "0", 100, 800, 8};
  EXPECT_EQ(message_bytes(gather), Bytes(1600));
  gather.shape.name = "allreduce";
  EXPECT_EQ(message_bytes(gather), Bytes(200));
  gather.shape.dtype = "";
  EXPECT_FALSE(message_bytes(gather));
}

TEST(Collectives, BytesOfTheirElements) {
  const std::pair<std::int64_t, std::vector<const char*>> cases[] = {
      {1, {"Byte", "Char", "int8", "uint8", "Bool", "Float8_e4m3fn", "Float8_e5m2"}},
      {2, {"Half", "Float16", "BFloat16", "Short"}},
      {4, {"Float", "float32", "Int", "int32"}},
      {8, {"Double", "float64", "Long", "int64", "LongLong"}},
      {0, {"ComplexFloat", ""}}};
  for (const auto& [bytes, names] : cases) {
    for (const char* name : names) EXPECT_EQ(element_bytes(name), bytes) << name;
  }
}

TEST(Collectives, WordsAndFactorsOfTheirKinds) {
  EXPECT_EQ(kind_words(CollectiveKind::all_to_all), "all-to-all");
  EXPECT_EQ(kind_words(CollectiveKind::point_to_point), "send and receive");
  EXPECT_EQ(kind_words(std::nullopt), "communication");
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 1), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_gather, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_gather, 1), 1);
  EXPECT_DOUBLE_EQ(bus_factor(std::nullopt, 8), 1);
}

TEST(Collectives, ShareOfTheForwardPass) {
  CollectiveUse use;
  EXPECT_DOUBLE_EQ(forward_share(use), 0);
  use.count = 10;
  use.in_backward = 3;
  use.after_backward = 2;
  EXPECT_DOUBLE_EQ(forward_share(use), 0.5);
}

}  // namespace
}  // namespace rooftile
