// The CUDA side against a stand-in for NVIDIA's libraries (tests/fake_cuda): how calls fit
// together, what is given back, what is told. Times are the stand-in's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/plan.h"
#include "gpu/session.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu {
namespace {

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "there is a real driver";
    setenv("ROOFTILE_CUDA_PATH", ROOFTILE_FAKE_CUDA, 1);
    auto opened = open_gpu();
    ASSERT_TRUE(opened) << opened.error().message;
    gpu = std::move(*opened);
  }
  void TearDown() override { unsetenv("ROOFTILE_CUDA_PATH"); }

  static int live() {
    void* library = dlopen(ROOFTILE_FAKE_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto count = reinterpret_cast<int (*)()>(dlsym(library, "rooftile_fake_live"));
    const int live = count();
    dlclose(library);
    return live;
  }

  std::unique_ptr<Gpu> gpu;
};

TEST_F(CudaGpu, IsTheBuiltInOneOfItsName) {
  EXPECT_EQ(gpu->device().id, "l40s");
  EXPECT_NE(gpu->versions().find("driver: 999"), std::string::npos);
  EXPECT_NE(gpu->versions().find("cublaslt: 120900"), std::string::npos);
}

TEST_F(CudaGpu, MeasuresEveryPlanAndGivesAllBack) {
  const int before = live();
  std::vector<Plan> plans{calibration_plan(50, gpu->device())};
  for (const Sweep& sweep : sweeps()) plans.push_back(*sweep_plan(sweep.name, gpu->device()));
  for (const Plan& plan : plans) {
    std::size_t number = 0;
    for (const PlanItem& item : plan) {
      if (number++ % 7 != 0) continue;  // each kind of point, in a second
      const Point point = measure(*gpu, item, {}, steady_clock());
      EXPECT_TRUE(point.measured()) << operation_text(item.op) << ": " << point.failure;
      EXPECT_GT(point.summary.median, Seconds(0));
    }
  }
  EXPECT_EQ(live(), before);
}

TEST_F(CudaGpu, TellsKernelAlgorithmAndConditions) {
  const Op op = parse_workload("gemm a bf16 m=64 n=63 k=128 batch=3 bias=1 phase=forward")->ops[0];
  const Point point = measure(*gpu, workload_item(op), {}, steady_clock());
  ASSERT_TRUE(point.measured()) << point.failure;
  EXPECT_NE(point.kernel.find("tile 128x128"), std::string::npos);  // id 20
  EXPECT_NE(point.kernel.find("fake_kernel grid 1x1x1 block 128"), std::string::npos);
  EXPECT_EQ(point.conditions.sm_clock, Hertz(2.49e9));
  EXPECT_EQ(point.conditions.power, Watts(301));
  EXPECT_EQ(point.conditions.throttle_reasons, 4U);
}

TEST_F(CudaGpu, RefusesInWordsWhatItCannotMeasure) {
  for (const char* text :
       {"attention a bf16 batch=1 heads=1 q=64 d=64", "gemm a bf16 weight_dtype=int4 m=1 n=8 k=8",
        "gemm a fp4 m=8 n=8 k=8", "conv a fp16 n=1 c=8 k=8 in=8 kernel=3",
        "conv a fp16 n=1 c=8 k=8 in=8x8 kernel=3x3 transposed=1",
        "conv a fp16 n=1 c=8 k=8 in=8x8 kernel=3x3 pad=1 pad_end=0",
        "elementwise a fp32 fn=add elements=100000000000 inputs=2"}) {
    const Op op = parse_workload(text)->ops[0];
    const Point point = measure(*gpu, workload_item(op), {}, steady_clock());
    EXPECT_FALSE(point.measured()) << text;
    EXPECT_FALSE(point.failure.empty());
  }
}

}  // namespace
}  // namespace rooftile::gpu
