#include <gtest/gtest.h>

#include "gpu/cuda/compiler.h"
#include "gpu/cuda/cublaslt.h"
#include "gpu/cuda/kernel_source.h"
#include "gpu/cuda/prepared.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile::gpu::cuda {
namespace {

Op op(const std::string& text) { return parse_workload(text)->ops.front(); }

const char* const kMeasurable[] = {
    "elementwise a bf16 fn=add elements=100 inputs=2",
    "elementwise a fp16 fn=add elements=100 inputs=3",
    "elementwise a fp64 fn=relu elements=10",
    "softmax a fp16 rows=3 cols=100",
    "norm a bf16 fn=layer rows=3 cols=101",
    "norm a fp32 fn=rms rows=3 cols=100",
    "cast a bf16 out_dtype=fp8 elements=100",
    "cast a fp8 out_dtype=bf16 elements=5",
    "cast a fp32 out_dtype=fp16 elements=100",
    "layout a bf16 elements=1024",
    "layout a int8 elements=1025",
    "embedding a fp16 vocab=100 width=64 lookups=5",
    "reduce a fp32 fn=sum elements=100 outputs=10",
};

TEST(KernelLaunch, RefusesWhatHasNoKernel) {
  for (const char* text :
       {"softmax a bf16 rows=1 cols=1 phase=dgrad", "norm a bf16 fn=batch rows=3 cols=4",
        "softmax a int4 rows=1 cols=1", "attention a bf16 batch=1 heads=1 q=1 d=64",
        "reduce a fp32 fn=sum elements=10 outputs=3",
        "elementwise a fp32 fn=add elements=1 inputs=4"}) {
    EXPECT_FALSE(kernel_launch(op(text))) << text;
  }
}

TEST(KernelLaunch, CoversEveryElement) {
  const auto add = kernel_launch(op("elementwise a bf16 fn=add elements=1048577 inputs=2"));
  // 256 threads, 4 steps of 8 elements each.
  EXPECT_EQ(add->blocks, 129U);
  const auto transposed = kernel_launch(op("layout a bf16 elements=3145728"));
  EXPECT_EQ(transposed->blocks, 3U * 32 * 32);  // three matrices of 1024 x 1024
  const auto softmax = kernel_launch(op("softmax a fp32 rows=7 cols=4096"));
  EXPECT_EQ(softmax->blocks, 7U);
  EXPECT_EQ(softmax->threads, 1024U);
}

TEST(KernelLaunch, VectorsAreWholeParts) {
  const auto vector = [](const char* text) { return kernel_launch(op(text))->defines[2]; };
  EXPECT_EQ(vector("softmax a bf16 rows=1 cols=4096"), "VECTOR=8");
  EXPECT_EQ(vector("softmax a bf16 rows=1 cols=4098"), "VECTOR=2");
  EXPECT_EQ(vector("softmax a bf16 rows=1 cols=4097"), "VECTOR=1");
  EXPECT_EQ(vector("cast a fp32 out_dtype=bf16 elements=64"), "VECTOR=4");
}

TEST(KernelSource, CompilesForEveryGeneration) {
  const auto compiler = Compiler::open();
  if (!compiler) GTEST_SKIP() << compiler.error().message << "; set LD_LIBRARY_PATH";
  const auto trial = compiler->compile("", 80, {});
  if (!trial && trial.error().message.find("builtins") != std::string::npos) {
    GTEST_SKIP() << trial.error().message;  // half an installation
  }
  for (const int compute_capability : {70, 80, 89, 90, 120}) {
    for (const char* text : kMeasurable) {
      const auto launch = kernel_launch(op(text));
      ASSERT_TRUE(launch) << text;
      const auto code = compiler->compile(kKernelSource, compute_capability, launch->defines);
      EXPECT_TRUE(code) << text << ": " << code.error().message;
      const auto fill = fill_launch(launch->buffers.front());
      EXPECT_TRUE(compiler->compile(kKernelSource, compute_capability, fill.defines)) << text;
    }
  }
}

TEST(OperandSets, ExceedTheCacheAndFitTheMemory) {
  constexpr std::size_t kMiB = 1 << 20;
  EXPECT_EQ(operand_sets(0, 10 * kMiB, 50 * kMiB, 1 << 30), 16U);  // 160 MiB of 3 * 50
  EXPECT_EQ(operand_sets(0, 1024 * kMiB, 50 * kMiB, 80ULL << 30), 2U);
  EXPECT_EQ(operand_sets(0, 1000, 50 * kMiB, 1 << 30), 64U);
  EXPECT_EQ(operand_sets(6, 10 * kMiB, 50 * kMiB, 1 << 30), 6U);
  EXPECT_EQ(operand_sets(6, 100 * kMiB, 50 * kMiB, 400 * kMiB), 2U);
  EXPECT_EQ(operand_sets(6, 300 * kMiB, 50 * kMiB, 400 * kMiB), 1U);
  EXPECT_EQ(operand_sets(6, 500 * kMiB, 50 * kMiB, 400 * kMiB), 0U);
}

TEST(PytorchWorkspace, FollowsThePublishedDefaults) {
  EXPECT_EQ(pytorch_workspace(80, true), 1048576U);
  EXPECT_EQ(pytorch_workspace(80, false), 8519680U);  // CUBLAS_WORKSPACE_CONFIG :4096:2:16:8
  EXPECT_EQ(pytorch_workspace(90, false), 33554432U);
}

TEST(OpenGpu, SaysInOneLineWhatIsMissing) {
  const auto gpu = open_gpu();
  if (gpu) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(gpu.error().message.empty());
  EXPECT_EQ(gpu.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace rooftile::gpu::cuda
