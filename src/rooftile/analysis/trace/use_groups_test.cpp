#include "rooftile/analysis/trace/use_groups.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(UseGroups, ShortNamesKeepWhatNamesTheKernel) {
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, "
                              "float>(float*)"),
            "'cunn_SoftMaxForward'");
  EXPECT_EQ(short_kernel_name("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_"
                              "256x128_tn_align1>(cutlass_75_tensorop::Params)"),
            "'cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1'");
  EXPECT_EQ(short_kernel_name("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<"
                              "cute::tuple<int>>>(Params)"),
            "'GemmUniversal'");
  EXPECT_EQ(short_kernel_name("ampere_sgemm_128x64_tn"), "'ampere_sgemm_128x64_tn'");
  EXPECT_EQ(short_kernel_name("conv_x(cv::cuda::PtrStepSz<float>, int)"), "'conv_x'");
  EXPECT_EQ(short_kernel_name("void a::(anonymous namespace)::copy(b::Array<int>)"), "'copy'");
  EXPECT_EQ(short_kernel_name("void a::<unnamed>::fill<b::Array<int>>(int)"), "'fill'");
}

// A tensor of one value says nothing of the size; one with an axis of one does.
TEST(UseGroups, ShapesLeaveScalarsOut) {
  OpArguments arguments;
  arguments.dims = {{64, 1}, {1, 1}, {}, {1}, {64, 128}};
  EXPECT_EQ(shape_text(arguments), "64x1, 64x128");
}

TEST(UseGroups, ShapesAreThoseOfThreeTensorsOfUpToEightAxes) {
  OpArguments arguments;
  arguments.dims = {{2, 2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {3}, {4}, {5}};
  EXPECT_EQ(shape_text(arguments), "2x2x2x2x2x2x2x2, 3, 4");
}

}  // namespace
}  // namespace rooftile
