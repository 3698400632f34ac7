#include "rooftile/analysis/batch_curve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

TimeEstimate around(double seconds, double error) {
  TimeEstimate estimate;
  estimate.time = {Seconds(seconds * (1 - error)), Seconds(seconds),
                   Seconds(seconds * (1 + error))};
  estimate.bound = Bound::memory;
  return estimate;
}

BatchPoint point(std::int64_t batch, double seconds, double math = 0) {
  BatchPoint made;
  made.batch = batch;
  made.sum = around(seconds, 0.1);
  made.memory.usable = Bytes(1);
  made.time = made.sum.time;
  made.bound = {math, 1 - math, 0, 0};
  return made;
}

// Of 100 bytes.
MemoryEstimate holding(double bytes) {
  MemoryEstimate memory{};
  memory.weights = Bytes(bytes);
  memory.usable = Bytes(100);
  return memory;
}

TEST(BatchCurve, TheKneeIsWhereDoublingStopsPaying) {
  // Per sample 10, 6, 3.5, 3.3 s: doubling saves 40, 42 and 6 %.
  const BatchCurve curve{{point(1, 10), point(2, 12), point(4, 14), point(8, 26.4)}};
  EXPECT_EQ(find_knee(curve), 2U);
  EXPECT_NEAR(gain_of_doubling(curve, 0), 0.4, 1e-12);
  EXPECT_EQ(find_knee(BatchCurve{{point(1, 10), point(2, 12)}}), std::nullopt);
}

// Below a tenth; the best is a twentieth away.
TEST(BatchCurve, BordersOfTheKneeAndOfTheBest) {
  const auto two = [](double each) { return BatchCurve{{point(1, 10), point(2, 2 * each)}}; };
  EXPECT_EQ(find_knee(two(8.9)), std::nullopt);
  EXPECT_EQ(find_knee(two(9.1)), 0U);
  const auto best = [](double each) {
    BatchCurve curve{{point(1, each), point(2, 20)}};
    curve.mode = Mode::training;
    return find_best_batch(curve);
  };
  EXPECT_EQ(best(10.4), 0U);
  EXPECT_EQ(best(10.6), 1U);
}

// From 11 to 10 s a sample: a twentieth of 20 s.
TEST(BatchCurve, TheSmallestTrainedBatchSavesAllButATwentieth) {
  const auto better = [](double first) {
    BatchCurve curve{{point(1, first), point(2, 2 * 11), point(4, 4 * 10)}};
    curve.mode = Mode::training;
    return find_better_batch(curve)->point;
  };
  EXPECT_EQ(better(20.1), 1U);
  EXPECT_EQ(better(19.9), 2U);
}

TEST(BatchCurve, OtherStepsCountPerDoubling) {
  // From 1 to 8 the time per sample falls to 0.512 = 0.8^3.
  const BatchCurve curve{{point(1, 1), point(8, 8 * 0.512)}};
  EXPECT_NEAR(gain_of_doubling(curve, 0), 0.2, 1e-12);
}

TEST(BatchCurve, MathBoundFromWhereItStaysSo) {
  const BatchCurve curve{{point(1, 1, 0.6), point(2, 1, 0.4), point(4, 1, 0.7), point(8, 1, 0.9)}};
  EXPECT_EQ(find_ridge_crossing(curve), 2U);
  EXPECT_EQ(find_ridge_crossing(BatchCurve{{point(1, 1, 0.5)}}), std::nullopt);
}

TEST(BatchCurve, AStepIsTheLongerOfKernelsAndLaunches) {
  BatchCurve curve{{point(1, 10), point(2, 12), point(4, 14), point(8, 26.4)}};
  for (BatchPoint& one : curve.points) {
    one.runs = {100, 100};
    one.host = {100, {Seconds(10), Seconds(15), Seconds(20)}};
  }
  EXPECT_EQ(curve.points[0].step(), Seconds(15));
  EXPECT_EQ(curve.points[3].step(), Seconds(26.4));
  // Per sample 15, 7.5, 3.75, 3.3 s: the last doubling saves 12 %.
  EXPECT_EQ(find_knee(curve), std::nullopt);
  EXPECT_EQ(find_knee(without_launches(curve)), 2U);
  for (BatchPoint& one : curve.points) one.host.launches = 2;  // a part of something else
  EXPECT_EQ(curve.points[0].step(), Seconds(10));
}

// Launches alone are no reason to report: a graph or a runtime may hide them.
TEST(BatchCurve, ABetterBatchSavesTimeOfKernels) {
  BatchCurve curve{{point(1, 10), point(2, 20), point(4, 40)}};
  for (BatchPoint& one : curve.points) {
    one.runs = {100, 100};
    one.host = {100, {Seconds(20), Seconds(40), Seconds(80)}};
  }
  EXPECT_FALSE(find_better_batch(curve));
}

TEST(BatchCurve, TheLargestGoodBatchIsSearched) {
  EXPECT_EQ(largest_good(1, 128, [](std::int64_t batch) { return batch <= 37; }), 37);
  EXPECT_EQ(largest_good(0, 2, [](std::int64_t) { return false; }), 0);
}

TEST(BatchCurve, TheBetterBatchIsTheBestThatFits) {
  // Per sample 10, 6, 3.4, 3.3 s.
  BatchCurve curve{{point(1, 10), point(2, 12), point(4, 13.6), point(8, 26.4)}};
  const auto better = find_better_batch(curve);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->point, 2U);
  EXPECT_NEAR(better->saving.expected.value(), 10 - 3.4, 1e-12);
  curve.points[2].memory = curve.points[3].memory = holding(95);
  EXPECT_EQ(find_better_batch(curve)->point, 1U);
  curve.points[1].memory = holding(101);
  EXPECT_FALSE(find_better_batch(curve));
}

TEST(BatchCurve, TheBestBatchIsTheSmallestWithinATwentieth) {
  // Per sample 10, 9.2, 8.5, 8.3 s: each doubling saves less than a tenth, all of them more.
  BatchCurve curve{{point(1, 10), point(2, 18.4), point(4, 34), point(8, 66.4)}};
  curve.mode = Mode::training;
  EXPECT_EQ(find_knee(curve), 0U);
  EXPECT_EQ(find_best_batch(curve), 2U);
  for (BatchPoint& one : curve.points) one.memory = holding(95);
  EXPECT_EQ(find_best_batch(curve), 0U) << "all are tight";
  for (BatchPoint& one : curve.points) one.memory = holding(101);
  EXPECT_EQ(find_best_batch(curve), std::nullopt);
}

// 1, 8 and 64 samples in 1, 2 and 12 s: 1, 4 and 5.3 a second. The last has a third more, but each
// waits six times as long. Who trains waits for no pass.
TEST(BatchCurve, InServingThroughputOverLatency) {
  BatchCurve curve{{point(1, 1), point(8, 2), point(64, 12)}};
  EXPECT_EQ(find_best_batch(curve), 1U);
  EXPECT_EQ(find_better_batch(curve)->point, 1U);
  curve.mode = Mode::training;
  EXPECT_EQ(find_best_batch(curve), 2U);
}

// Per sample 16, 8.1, 4.2, 2.2, 1.2, 0.7, 0.45 s. Serving takes the throughput of the last; for a
// training recipe all that 32 and 64 save is less than a twentieth of today's step.
TEST(BatchCurve, InTrainingTheSmallestThatSavesAboutAsMuch) {
  BatchCurve curve{{point(1, 16), point(2, 16.2), point(4, 16.8), point(8, 17.6), point(16, 19.2),
                    point(32, 22.4), point(64, 28.8)}};
  EXPECT_EQ(find_better_batch(curve)->point, 6U);
  curve.mode = Mode::training;
  EXPECT_EQ(find_better_batch(curve)->point, 4U);
  EXPECT_NEAR(find_better_batch(curve)->saving.expected.value(), 16 - 1.2, 1e-12);
}

// LeNet on MNIST keeps gaining up to batches that nobody trains with.
TEST(BatchCurve, EndsAtBatchesInUse) {
  const auto at = [](std::int64_t batch) {
    return parse_workload(
        fmt::format("workload batch={}\n"
                    "gemm hidden fp32 m={} n=128 k=784\n"
                    "gemm classes fp32 m={} n=10 k=128\n",
                    batch, batch, batch));
  };
  const auto curve_from = [&](std::int64_t batch, Mode mode) {
    const auto in_mode = [&](std::int64_t size) {
      Workload workload = *at(size);
      workload.mode = mode;
      return workload;
    };
    return batch_curve(in_mode(batch), TimeModel(*find_device("a100")), [&](std::int64_t size) {
      Workload larger = in_mode(size);
      larger.batch.reset();  // the curve knows it
      return std::optional(larger);
    });
  };
  EXPECT_EQ(curve_from(64, Mode::training).points.back().batch, 8192);
  EXPECT_EQ(curve_from(64, Mode::inference).points.back().batch, 2048);
  EXPECT_EQ(curve_from(65536, Mode::training).points.size(), 1U);
}

TEST(BatchCurve, LessThanAThirdIsNoBetterInTrainingAFifth) {
  // From 10 s per sample to `each`.
  const auto is_better = [](double each, Mode mode) {
    const BatchCurve curve{{point(1, 10), point(2, 2 * each), point(4, 4 * each)}, false, mode};
    return find_better_batch(curve).has_value();
  };
  EXPECT_TRUE(is_better(6.6, Mode::inference));
  EXPECT_FALSE(is_better(6.7, Mode::inference));
  EXPECT_TRUE(is_better(7.9, Mode::training));
  EXPECT_FALSE(is_better(8.1, Mode::training));
  EXPECT_FALSE(find_better_batch({}));
}

TEST(BatchCurve, NorIsAGainWithinTheModelsError) {
  BatchCurve curve{{point(1, 10), point(2, 15)}};  // a quarter less per sample
  curve.mode = Mode::training;
  EXPECT_TRUE(find_better_batch(curve));
  for (BatchPoint& vague : curve.points) vague.sum = around(vague.time.expected.value(), 0.6);
  EXPECT_FALSE(find_better_batch(curve));
  curve.points[1] = point(2, 11);  // 45 % less
  for (BatchPoint& vague : curve.points) vague.sum = around(vague.time.expected.value(), 0.9);
  const auto large = find_better_batch(curve);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->saving.low, Seconds());
}

// What a reader had to leave out may take any time: 3 of 30 operations leave too little.
TEST(BatchCurve, WorkLeftOutCounts) {
  Workload workload =
      *parse_workload("workload batch=1\ngemm up bf16 m=1 n=16384 k=4096 count=3\n");
  const TimeModel model(*find_device("h100"));
  EXPECT_TRUE(batch_point(workload, model).is_known());
  workload.skipped["unknown shape: MatMul"] = 27;
  EXPECT_EQ(batch_point(workload, model).runs.all, 30);
  EXPECT_FALSE(batch_point(workload, model).is_known());
}

}  // namespace
}  // namespace rooftile
