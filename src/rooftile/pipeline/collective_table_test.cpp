#include "rooftile/pipeline/collective_table.h"

#include <gtest/gtest.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/reports/collectives.h"

namespace rooftile {
namespace {

TraceSummary rank_of(std::int64_t rank, std::vector<Seconds> runs) {
  TraceSummary trace;
  trace.rank = rank;
  trace.time.span = milliseconds(10);
  CollectiveUse use;
  use.kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  use.shape = {"allreduce", "Float", "0", 1'000'000, 1'000'000, 4};
  use.count = static_cast<std::int64_t>(runs.size());
  for (const Seconds run : runs) use.time += run;
  use.exposed = use.time;
  use.runs = std::move(runs);
  trace.collectives = {use};
  return trace;
}

TEST(CollectiveTable, BandwidthsAreThoseOfTheFastestRun) {
  const Workload workload =
      measured_workload({rank_of(0, {microseconds(100), microseconds(120), microseconds(500)})});
  const auto device = find_device("h100_sxm");
  const auto rows = collective_rows(workload, &*device);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].kind, "all-reduce");
  EXPECT_DOUBLE_EQ(rows[0].per_pass, 3);
  EXPECT_EQ(rows[0].median, microseconds(120));
  EXPECT_EQ(rows[0].fastest, microseconds(100));
  // 4 MB in 100 us are 40 GB/s; each of four ranks moves 2·3/4 of it: 60 of NVLink's 450 GB/s.
  EXPECT_NEAR(rows[0].algorithm_bandwidth->value(), 40e9, 1);
  EXPECT_NEAR(rows[0].bus_bandwidth->value(), 60e9, 1);
  EXPECT_EQ(rows[0].link, "NVLink");
  EXPECT_NEAR(*rows[0].link_share, 60.0 / 450, 1e-9);
  EXPECT_FALSE(rows[0].skew);
}

// 450 of 500 us are waiting: none of the runs tells what the link carries.
TEST(CollectiveTable, RunsThatAllWaitHaveNoBandwidth) {
  TraceSummary trace = rank_of(0, {microseconds(240), microseconds(260)});
  trace.collectives[0].waiting = microseconds(450);
  const auto rows = collective_rows(measured_workload({trace}), nullptr);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].median, microseconds(250));
  EXPECT_FALSE(rows[0].algorithm_bandwidth);
}

TEST(CollectiveTable, SmallMessagesHaveNoBandwidth) {
  TraceSummary trace = rank_of(0, {microseconds(20), microseconds(21)});
  trace.collectives[0].shape.in_elements = trace.collectives[0].shape.out_elements = 1000;
  const auto rows = collective_rows(measured_workload({trace}), nullptr);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].algorithm_bandwidth);
}

TEST(CollectiveTable, TheShortestOfTheRanksIsTheTransfer) {
  const Workload workload =
      measured_workload({rank_of(0, {microseconds(100), microseconds(400), microseconds(110)}),
                         rank_of(1, {microseconds(350), microseconds(120), microseconds(120)})});
  const auto rows = collective_rows(workload, nullptr);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].median, microseconds(110));  // of 100, 120, 110
  ASSERT_TRUE(rows[0].skew);
  EXPECT_NEAR(to_microseconds(*rows[0].skew), 250, 1e-6);  // of 250, 280, 10
  EXPECT_FALSE(rows[0].link_share);
}

// Of unknown size runs of two kernels are two collectives.
TEST(CollectiveTable, KernelsOfUnknownSizesAreApart) {
  TraceSummary trace = rank_of(0, {microseconds(100), microseconds(400), microseconds(110)});
  trace.collectives[0].shape = {};
  trace.collectives[0].kernel = "deep_ep::internode_ll::dispatch";
  trace.collectives.push_back(trace.collectives[0]);
  trace.collectives[1].kernel = "deep_ep::internode_ll::combine";
  const auto rows = collective_rows(measured_workload({trace}), nullptr);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].kind, "all-to-all (combine)");
  EXPECT_EQ(rows[1].kind, "all-to-all (dispatch)");
}

TEST(CollectiveTable, TheSmallestShareARow) {
  Report report;
  for (int i = 0; i < 10; ++i) {
    report.collectives.push_back({.kind = "all-gather", .time = microseconds(10 - i)});
  }
  const TextTable table = collectives_table(report);
  ASSERT_EQ(table.rows.size(), 9U);
  EXPECT_EQ(table.rows.back().front(), "the rest");
}

}  // namespace
}  // namespace rooftile
