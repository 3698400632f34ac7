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

// What ran has a time of its own; the gradient is of the same layer.
TEST(GroupEqualLayers, ShareWhatIsNotMeasured) {
  Workload workload;
  workload.ops = {gemm_op(16), gemm_op(16, Phase::forward, 2), gemm_op(16),
                  gemm_op(32), gemm_op(16, Phase::wgrad),      gemm_op(16, Phase::wgrad)};
  const double seconds[] = {1, 2, 0, 4, 5, 6};  // 0: not measured
  for (std::size_t i = 0; i < 6; ++i) {
    if (seconds[i] > 0) workload.ops[i].measured = Seconds(seconds[i]);
  }
  const TimeModel any(*find_device("h100"));
  const TimeModel model = step_model(workload, any);
  const Analysis analysis = analyse(workload, any);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(analysis.ops[i].measured, workload.ops[i].measured) << i;
    EXPECT_EQ(analysis.ops[i].layer, i == 3 ? 3U : 0U) << i;
    EXPECT_EQ(analysis.ops[i].time->time.expected, model.estimate(workload.ops[i])->time.expected);
  }
  const double modelled = model.estimate(workload.ops[2])->time.expected.value();
  EXPECT_DOUBLE_EQ(analysis.total.expected.value(), 1 + 2 * 2 + modelled + 4 + 5 + 6);
  EXPECT_DOUBLE_EQ(analysis.ops[1].time_share, 4 / analysis.total.expected.value());
  EXPECT_EQ(analysis.ops_without_time, 0);
}

}  // namespace
}  // namespace rooftile
