#include "rooftile/analysis/trace/neighbours.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rooftile {
namespace {

TimedOp timed(std::string_view family, std::string_view kernel, double modelled, double measured) {
  const Seconds time(modelled);
  return {family, kernel, time, {0.5 * time, time, 2 * time}, Seconds(measured)};
}

TEST(Neighbours, OwnTimeNeverCorrectsItself) {
  const std::vector<TimedOp> alone{timed("gemm/tf32", "a", 10, 20)};
  EXPECT_EQ(learn_from_neighbours(alone).front().expected, Seconds(10));
  std::vector<TimedOp> ops{timed("gemm/tf32", "a", 10, 12), timed("gemm/tf32", "b", 11, 9)};
  const Seconds before = learn_from_neighbours(ops).front().expected;
  ops.front().measured = Seconds(15);
  EXPECT_EQ(learn_from_neighbours(ops).front().expected, before);
}

TEST(Neighbours, OthersOfTheFamilyThatWereSlowerMakeItSlower) {
  const std::vector<TimedOp> ops{timed("gemm/tf32", "a", 10, 0), timed("gemm/tf32", "b", 10, 12),
                                 timed("conv/tf32", "b", 10, 5)};
  // One neighbour of the same time counts as much as the model: the mean of the two, in log.
  const Range<Seconds> time = learn_from_neighbours(ops).front();
  EXPECT_NEAR(time.expected.value(), 10 * std::sqrt(1.2), 1e-9);
  // A tenth narrower, in log.
  EXPECT_NEAR(time.low / time.expected, std::pow(0.5, 0.9), 1e-9);
  EXPECT_NEAR(time.high / time.expected, std::pow(2, 0.9), 1e-9);
}

TEST(Neighbours, NearTimesAndTheSameKernelSayMore) {
  const auto expected = [](const TimedOp& other) {
    const std::vector<TimedOp> ops{timed("gemm/tf32", "a", 10, 0), other};
    return learn_from_neighbours(ops).front().expected.value();
  };
  const double near = expected(timed("gemm/tf32", "b", 11, 13.2));
  EXPECT_GT(near, expected(timed("gemm/tf32", "b", 100, 120)));
  EXPECT_LT(near, expected(timed("gemm/tf32", "a", 11, 13.2)));
  // What took ten times as long has a fault of its own.
  EXPECT_LT(expected(timed("gemm/tf32", "b", 10, 100)), 10 * std::sqrt(2.01));
}

TEST(Neighbours, ThousandsOfOneTimeAreBounded) {
  const std::vector<TimedOp> ops(20'000, timed("gemm/tf32", "a", 10, 12));
  EXPECT_NEAR(learn_from_neighbours(ops).back().expected.value(), 12, 0.2);
}

TEST(Neighbours, RecordingsInWholeMicrosecondsWidenTheRange) {
  std::vector<TimedOp> ops;
  for (int i = 0; i < 8; ++i) ops.push_back(timed("reduce/short", "a", 2e-6, 2e-6));
  const Range<Seconds> rounded = learn_from_neighbours(ops).front();
  ops.front().measured = Seconds(2.3e-6);
  const Range<Seconds> exact = learn_from_neighbours(ops).back();
  ops.front().measured = Seconds(2e-6);
  EXPECT_NEAR(rounded.low.value(), 0.5e-6 + 0.05e-6, 0.1e-6);
  EXPECT_NEAR((exact.low - rounded.low).value(), 0.5e-6, 0.1e-6);
  EXPECT_NEAR((rounded.high - exact.high).value(), 0.5e-6, 0.3e-6);
}

}  // namespace
}  // namespace rooftile
