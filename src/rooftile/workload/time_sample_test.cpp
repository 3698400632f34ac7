#include "rooftile/workload/time_sample.h"

#include <gtest/gtest.h>

#include <vector>

namespace rooftile {
namespace {

TimeSample seconds(std::initializer_list<double> values) {
  TimeSample sample;
  for (const double value : values) sample.emplace_back(value);
  return sample;
}

// Places 0.4, 2 and 3.6 of five.
TEST(TimeSample, QuantilesLieBetweenNeighbours) {
  const Spread spread = spread_of(seconds({1, 2, 3, 4, 10}), 5);
  EXPECT_DOUBLE_EQ(spread.p10.value(), 1.4);
  EXPECT_DOUBLE_EQ(spread.median.value(), 3);
  EXPECT_DOUBLE_EQ(spread.p90.value(), 7.6);
}

// Places 0.4, 2 and 3.6 of five again.
TEST(TimeSample, QuantilesOfValuesInAnyOrder) {
  std::vector<double> values{4, 10, 1, 3, 2};
  EXPECT_DOUBLE_EQ(take_quantile(values, 0.9), 7.6);
  EXPECT_DOUBLE_EQ(take_quantile(values, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(take_quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(take_quantile(values, 1), 10);
}

TEST(TimeSample, OneRunIsItsOwnSpreadAndNoneIsZero) {
  EXPECT_DOUBLE_EQ(spread_of(seconds({4}), 1).p10.value(), 4);
  EXPECT_DOUBLE_EQ(spread_of(seconds({}), 3).median.value(), 0);
}

// 1, 2, 3, 10, 20: the median is that of all five runs, not of the two medians.
TEST(TimeSample, SamplesMergeAsTheirRuns) {
  const TimeSample few = seconds({10, 20}), many = seconds({1, 2, 3});
  const std::vector<CountedSample> both{{&few, 2}, {&many, 3}};
  EXPECT_DOUBLE_EQ(spread_of(both).median.value(), 3);
  EXPECT_EQ(merged(both), seconds({1, 2, 3, 10, 20}));
}

// 0 to 6400 in 65 points 100 apart; with a thousand runs at 10000 the median is run 3700 of 7401.
TEST(TimeSample, ManyRunsKeepTheirQuantiles) {
  std::vector<double> runs;
  for (int i = 0; i <= 6400; ++i) runs.push_back(i);
  const TimeSample sample = sample_of(runs);
  ASSERT_EQ(sample.size(), kMostTimes);
  EXPECT_DOUBLE_EQ(sample[1].value(), 100);
  EXPECT_DOUBLE_EQ(sample.back().value(), 6400);
  EXPECT_NEAR(spread_of(sample, 6401).median.value(), 3200, 1);
  const TimeSample long_runs = sample_of(std::vector<double>(1000, 10000.0));
  const std::vector<CountedSample> both{{&sample, 6401}, {&long_runs, 1000}};
  EXPECT_NEAR(spread_of(both).median.value(), 3700, 50);
  EXPECT_DOUBLE_EQ(spread_of(both).p90.value(), 10000);
}

}  // namespace
}  // namespace rooftile
