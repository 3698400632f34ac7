#include "rooftile/analysis/trace/use_groups.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

KernelUse group_kernel(const std::string& name, std::int64_t count, double ms) {
  KernelUse kernel;
  kernel.name = name;
  kernel.count = count;
  kernel.time = milliseconds(ms);
  return kernel;
}

// Two places of one product, at one shape, and a kernel without an operator.
TEST(UseGroups, AreOfOneOperatorAndShape) {
  TraceSummary trace;
  trace.has_tables_of_window = true;
  OpUse use;
  use.name = "aten::mm";
  use.arguments.dims = {{64, 32}, {32, 16}};
  use.kernels = {group_kernel("gemm_a", 3, 4), group_kernel("gemm_b", 2, 1)};
  trace.ops = {use, use};
  trace.ops[1].kernels = {group_kernel("gemm_a", 1, 3)};
  trace.orphans = {group_kernel("own", 5, 9), group_kernel("fill", 1, 20)};
  const auto wanted = [](const OpUse*, const KernelUse& kernel) { return kernel.name != "fill"; };
  const std::vector<UseGroup> groups = group_by_shape(trace, wanted);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "");
  EXPECT_EQ(groups[0].shape, "");
  EXPECT_EQ(groups[0].kernels, 5);
  EXPECT_TRUE(groups[0].uses.empty());
  EXPECT_EQ(kernels_text(groups[0]), "kernel 'own'");
  const UseGroup& product = groups[1];
  EXPECT_EQ(product.name, "aten::mm");
  EXPECT_EQ(product.shape, "64x32, 32x16");
  EXPECT_EQ(product.uses, (std::vector<const OpUse*>{&trace.ops[0], &trace.ops[1]}));
  EXPECT_EQ(product.kernel->name, "gemm_a");
  EXPECT_EQ(product.names, 2U);
  EXPECT_EQ(product.kernels, 6);
  EXPECT_NEAR(to_milliseconds(product.time), 8, 1e-9);
  EXPECT_NEAR(product.kernel_share, 7.0 / 8, 1e-12);
  EXPECT_EQ(kernels_text(product).find("2 kernels, the longest 'gemm_a' ("), 0U);
  EXPECT_NEAR(to_milliseconds(time_of_kernels(trace, wanted)), 17, 1e-9);
}

TEST(UseGroups, KernelsByTheirNamesAndFacts) {
  const auto named = [](const std::string& name) { return group_kernel(name, 1, 1); };
  EXPECT_TRUE(is_vector_kernel(named("void gemvNSP_kernel<float>")));
  EXPECT_TRUE(is_vector_kernel(named("void DOT_KERNEL<float>")));
  EXPECT_FALSE(is_vector_kernel(named("ampere_sgemm_128x64_nn")));
  KernelUse kernel = named("void f<int>(int)");
  EXPECT_TRUE(is_own_kernel(kernel));
  kernel.facts.kernel_class = KernelClass::gemm;
  EXPECT_FALSE(is_own_kernel(kernel));
  EXPECT_TRUE(is_matrix_kernel(kernel));
  kernel.name = "my_gemm(ns::Array<int>)";
  EXPECT_TRUE(is_own_kernel(kernel));
  kernel.facts.library = "cutlass";
  EXPECT_FALSE(is_own_kernel(kernel));
  kernel.facts.kernel_class = KernelClass::convolution;
  EXPECT_TRUE(is_matrix_kernel(kernel));
  kernel.facts.kernel_class = KernelClass::softmax;
  EXPECT_FALSE(is_matrix_kernel(kernel));
}

TEST(UseGroups, WhatAKernelMultiplies) {
  OpUse use;
  use.arguments.types = {"Scalar", "c10::BFloat16", "float"};
  KernelUse kernel;
  EXPECT_EQ(operand_dtype(&use, kernel), Dtype::bf16);
  EXPECT_FALSE(operand_dtype(nullptr, kernel));
  kernel.facts.dtype = Dtype::fp16;
  EXPECT_EQ(operand_dtype(&use, kernel), Dtype::fp16);
  kernel.facts.dtype.reset();
  for (const auto& [type, dtype] :
       {std::pair{"float", Dtype::fp32}, {"double", Dtype::fp64}, {"c10::Half", Dtype::fp16}}) {
    use.arguments.types = {type};
    EXPECT_EQ(operand_dtype(&use, kernel), dtype);
  }
  use.arguments.types = {"int"};
  EXPECT_FALSE(operand_dtype(&use, kernel));
}

TEST(UseGroups, WhatRanTheProgram) {
  TraceSummary trace;
  EXPECT_FALSE(uses_torch(trace));
  EXPECT_FALSE(uses_openmp(trace));
  EXPECT_FALSE(slows_host(trace));
  trace.orphans = {group_kernel("__omp_offloading_1", 1, 1)};
  EXPECT_TRUE(uses_openmp(trace));
  EXPECT_FALSE(uses_torch(trace));
  trace.orphans.front().facts.library = "pytorch";
  EXPECT_TRUE(uses_torch(trace));
  trace = {};
  trace.format = "Kineto";
  EXPECT_TRUE(uses_torch(trace));
  trace = {};
  trace.steps.source = StepSource::profiler_step;
  EXPECT_TRUE(uses_torch(trace));
  trace = {};
  trace.copies.emplace_back().site.op = "aten::copy_";
  EXPECT_TRUE(uses_torch(trace));
  trace = {};
  trace.syncs.emplace_back().site.op = "c10d::barrier";
  EXPECT_TRUE(uses_torch(trace));
  trace = {};
  trace.format = "Nsight Systems";
  trace.ops.emplace_back().name = "aten::mm";
  EXPECT_TRUE(uses_torch(trace));
  EXPECT_TRUE(slows_host(trace));
  trace.ops.front().name = "mine::mm";
  EXPECT_FALSE(uses_torch(trace));
  EXPECT_FALSE(slows_host(trace));
  trace.has_stacks = true;
  EXPECT_TRUE(slows_host(trace));
  EXPECT_FALSE(uses_compiler(trace));
  trace.path.parts.emplace_back().name = "Torch-Compiled Region: 0/0";
  EXPECT_TRUE(uses_compiler(trace));
  EXPECT_TRUE(is_compiled_range("CompiledFunctionBackward"));
}

}  // namespace
}  // namespace rooftile
