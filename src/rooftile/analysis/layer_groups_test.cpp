#include "rooftile/analysis/layer_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

using testing::ElementsAre;

Op gemm_op(std::int64_t n, Phase phase = Phase::forward, std::int64_t count = 1) {
  Op op;
  op.body = Gemm{.m = 8, .n = n, .k = 8};
  op.phase = phase;
  op.count = count;
  return op;
}

TEST(GroupEqualLayers, ByShapeAcrossPhases) {
  Workload workload;
  workload.ops = {gemm_op(16), gemm_op(32), gemm_op(16, Phase::forward, 3),
                  gemm_op(16, Phase::wgrad)};
  Analysis analysis = analyse(workload, TimeModel(*find_device("h100")));
  for (OpAnalysis& op : analysis.ops) op.time_share = 0;
  analysis.ops[0].time_share = 0.25;
  analysis.ops[3].time_share = 0.5;
  const auto groups = group_equal_layers(workload, analysis, [](const Op&) { return true; });
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].ops, ElementsAre(0, 2, 3));
  EXPECT_THAT(groups[1].ops, ElementsAre(1));
  EXPECT_DOUBLE_EQ(groups[0].time_share, 0.75);
  EXPECT_EQ(count_runs(workload, groups[0], Phase::forward), 4);
  EXPECT_EQ(count_runs(workload, groups[0], Phase::dgrad), 0);
}

TEST(GroupEqualLayers, PrecisionsStayApart) {
  Workload workload;
  workload.ops = {gemm_op(16), gemm_op(16)};
  workload.ops[1].dtypes = Dtypes(Dtype::bf16);
  const Analysis analysis = analyse(workload, TimeModel(*find_device("h100")));
  EXPECT_EQ(group_equal_layers(workload, analysis, [](const Op&) { return true; }).size(), 2u);
}

}  // namespace
}  // namespace rooftile
