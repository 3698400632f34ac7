#include "gpu/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rooftile/hardware/device_file.h"
#include "rooftile/tuner/calibrated_section.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

Device device(const char* name) { return find_device(name).value(); }

std::size_t count(const Plan& plan, std::string_view group) {
  return static_cast<std::size_t>(std::count_if(
      plan.begin(), plan.end(), [&](const PlanItem& item) { return item.group() == group; }));
}

TEST(CalibrationPlan, HasTheProductsAskedFor) {
  for (const std::size_t points : {1U, 20U, 50U, 200U}) {
    EXPECT_EQ(count(calibration_plan(points, device("h100")), "products"), points);
  }
  EXPECT_EQ(count(calibration_plan(20, device("h100")), "fp32"), 0U);
  EXPECT_EQ(count(calibration_plan(50, device("h100")), "fp32"), 20U);
}

TEST(CalibrationPlan, RunsInTheUsualPrecision) {
  EXPECT_EQ(calibration_plan(1, device("h100"))[0].op.dtypes.input, Dtype::bf16);
  EXPECT_EQ(calibration_plan(1, device("v100"))[0].op.dtypes.input, Dtype::fp16);
  EXPECT_EQ(calibration_plan(1, device("p100"))[0].op.dtypes.input, Dtype::fp32);
}

TEST(CalibrationPlan, FitsASectionWithEveryPoint) {
  for (const PlanItem& item : calibration_plan(200, device("a100"))) {
    EXPECT_NE(section_of(item.op, device("a100")), nullptr) << operation_text(item.op);
  }
}

TEST(CalibrationPlan, MixesItsGroups) {
  std::set<std::string> first;
  const Plan plan = calibration_plan(50, device("h100"));
  for (std::size_t i = 0; i < 3; ++i) first.insert(plan[i].group());
  EXPECT_EQ(first.size(), 3U);
}

TEST(Sweeps, AreWellFormedOnEveryGpu) {
  for (const char* name : {"p100", "v100", "a100", "h100", "b200"}) {
    for (const Sweep& sweep : sweeps()) {
      const auto plan = sweep_plan(sweep.name, device(name));
      ASSERT_TRUE(plan) << sweep.name;
      EXPECT_GT(plan->size(), 20U) << sweep.name;
      for (const PlanItem& item : *plan) {
        EXPECT_TRUE(parse_workload(operation_text(item.op))) << operation_text(item.op);
      }
    }
  }
}

TEST(Sweeps, AlignmentSeesEveryClassOfEachLeadingDimension) {
  std::set<std::int64_t> x_classes, w_classes, out_classes;
  const Plan plan = sweep_plan("alignment", device("a100")).value();
  for (const PlanItem& item : plan) {
    const auto& gemm = std::get<Gemm>(item.op.body);
    if (item.op.dtypes.input != Dtype::bf16) continue;
    if (item.group() == "x_stride") x_classes.insert(gemm.x_stride & -gemm.x_stride);
    if (item.group() == "w_stride") w_classes.insert(gemm.w_stride & -gemm.w_stride);
    if (item.group() == "out_stride") out_classes.insert(gemm.out_stride & -gemm.out_stride);
  }
  for (const auto& classes : {x_classes, w_classes, out_classes}) {
    for (const std::int64_t elements : {1, 2, 4, 8}) EXPECT_TRUE(classes.contains(elements));
  }
}

TEST(Sweeps, AnUnknownNameListsThem) {
  const auto plan = sweep_plan("alignments", device("a100"));
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("vocabulary"), std::string::npos);
}

TEST(WorkloadPlan, HasEachOperationOnce) {
  const auto workload = parse_workload(
      "gemm a bf16 m=1 n=2 k=3 count=4\ngemm b bf16 m=1 n=2 k=3\ngemm c bf16 m=1 n=2 k=3 "
      "phase=dgrad\n"
      "gemm d fp16 m=1 n=2 k=3\n");
  EXPECT_EQ(workload_plan(*workload).size(), 3U);
}

TEST(OperationText, ReadsBack) {
  for (const char* text :
       {"cast a fp32 elements=4 out_dtype=bf16", "gemm a bf16 m=1 n=2 k=3 layout=nn phase=wgrad",
        "gemm a bf16 m=1 n=2 k=3 weight_dtype=int4"}) {
    EXPECT_EQ(operation_text(parse_workload(text)->ops.front()), text);
  }
}

}  // namespace
}  // namespace rooftile::gpu
