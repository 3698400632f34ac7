#include "gpu/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gpu/fake_gpu.h"
#include "gpu/points_file.h"
#include "rooftile/readers/reader.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

Plan plan_of(const std::string& text) { return workload_plan(parse_workload(text).value()); }

const std::string kThree =
    "gemm a bf16 m=1 n=2 k=3\nother b bf16 fn=unknown\nsoftmax c bf16 rows=4 cols=5\n";

Seconds ten_microseconds(const Op&) { return Seconds(1e-5); }

struct Kept {
  std::vector<Point> points;
  Result<void> operator()(const Point& point) {
    points.push_back(point);
    return {};
  }
};

TEST(RunPlan, MeasuresAndCountsWhatItCannot) {
  FakeGpu gpu(ten_microseconds);
  Kept kept;
  const auto counts = run_plan(
      gpu, plan_of(kThree), {}, [&] { return gpu.now; }, std::ref(kept));
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->measured, 2U);
  EXPECT_EQ(counts->failed, 1U);
  ASSERT_EQ(kept.points.size(), 3U);
  EXPECT_EQ(kept.points[0].summary.median, Seconds(1e-5));
  EXPECT_EQ(kept.points[1].failure, "this kind is not measured");
  EXPECT_EQ(kept.points[2].kernel, "fake \"kernel\", 128x128");
  EXPECT_EQ(kept.points[2].conditions.power, Watts(300));
}

TEST(RunPlan, BeginsNothingAfterTheBudget) {
  FakeGpu gpu(ten_microseconds);
  Kept kept;
  SessionOptions options;
  options.budget = Seconds(0.05);  // one point takes 7 runs of 10 ms of the fake's clock
  const auto counts = run_plan(
      gpu, plan_of(kThree), options, [&] { return gpu.now; }, std::ref(kept));
  EXPECT_EQ(counts->measured, 1U);
  EXPECT_EQ(counts->left, 2U);
}

TEST(RunPlan, EndsWhenAPointCannotBeKept) {
  FakeGpu gpu(ten_microseconds);
  const auto counts = run_plan(
      gpu, plan_of(kThree), {}, [&] { return gpu.now; },
      [](const Point&) -> Result<void> { return fail("disk full"); });
  ASSERT_FALSE(counts);
  EXPECT_EQ(gpu.prepared, 1U);
}

class PointsFiles : public testing::Test {
 protected:
  std::string path = testing::TempDir() + "gpu_points_test.csv";
  FakeGpu gpu{ten_microseconds};

  void SetUp() override { std::filesystem::remove(path); }
  void TearDown() override { std::filesystem::remove(path); }

  SessionCounts run(const std::string& plan) {
    auto file = PointsFile::open(path, gpu);
    EXPECT_TRUE(file);
    SessionOptions options;
    options.done = file->done();
    return run_plan(
               gpu, plan_of(plan), options, [&] { return gpu.now; },
               [&](const Point& point) { return file->write(point); })
        .value();
  }
};

TEST_F(PointsFiles, ReadBackAsTimings) {
  run(kThree);
  const auto input = read_input(path, {});
  ASSERT_TRUE(input) << to_string(input.error());
  const std::vector<Op>& ops = input->workload.ops;
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(dims_text(ops[0].body), "m=1 n=2 k=3");
  EXPECT_NEAR(ops[0].measured->value(), 1e-5, 1e-12);
  EXPECT_EQ(kind_name(ops[1].body), "softmax");
}

TEST_F(PointsFiles, ASecondSessionGoesOn) {
  run("gemm a bf16 m=1 n=2 k=3\n");
  const SessionCounts counts = run(kThree);
  EXPECT_EQ(counts.known, 1U);
  EXPECT_EQ(counts.measured, 1U);
  EXPECT_EQ(read_input(path, {})->workload.ops.size(), 2U);
}

TEST_F(PointsFiles, RefuseAnotherGpuAndOtherFiles) {
  run(kThree);
  FakeGpu other(ten_microseconds, "t4");
  const auto refused = PointsFile::open(path, other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("holds points of L40S, this GPU is T4"));
  std::ofstream(path) << "something else\n";
  EXPECT_FALSE(PointsFile::open(path, gpu));
  EXPECT_FALSE(PointsFile::open("/no/such/folder/points.csv", gpu));
}

TEST(PointsPath, LiesBesideTheDeviceFile) {
  EXPECT_EQ(points_path("out/my_gpu.json"), "out/my_gpu.points.csv");
  EXPECT_EQ(points_path("my_gpu"), "my_gpu.points.csv");
}

}  // namespace
}  // namespace rooftile::gpu
