#include "rooftile/analysis/trace/benchmarks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace rooftile {
namespace {

KernelUse kernel_of(const std::string& name, std::int64_t count, Seconds time) {
  KernelUse kernel;
  kernel.name = name;
  kernel.count = count;
  kernel.time = time;
  return kernel;
}

// `count` runs of an operator's kernel, of a millisecond each.
TraceSummary repeated(std::int64_t count) {
  TraceSummary trace;
  OpUse& use = trace.ops.emplace_back();
  use.name = "aten::mm";
  use.kernels = {kernel_of("gemm", count, milliseconds(static_cast<double>(count)))};
  return trace;
}

TEST(Benchmarks, AreOfOneOrTwoKernels) {
  EXPECT_EQ(benchmark_because(repeated(2)), "");
  EXPECT_NE(benchmark_because(repeated(3)).find("repeats aten::mm (3 runs of "), std::string::npos);
  TraceSummary trace = repeated(3);
  trace.ops.front().kernels.push_back(kernel_of("split", 3, milliseconds(1)));
  KernelUse fill = kernel_of("fill", 9, milliseconds(9));
  fill.facts.kernel_class = KernelClass::fill;
  trace.orphans = {fill};
  EXPECT_NE(benchmark_because(trace), "");
  trace.orphans.push_back(kernel_of("third", 1, milliseconds(1)));
  EXPECT_EQ(benchmark_because(trace), "");
}

TEST(Benchmarks, AreNoPrograms) {
  TraceSummary trace = repeated(9);
  trace.graph_launches = 1;
  EXPECT_EQ(benchmark_because(trace), "");
  trace = repeated(9);
  trace.modules.emplace_back();
  EXPECT_EQ(benchmark_because(trace), "");
  trace = repeated(9);
  trace.loaders.emplace_back();
  EXPECT_EQ(benchmark_because(trace), "");
  trace = repeated(9);
  trace.ops.front().phase = Phase::wgrad;
  EXPECT_EQ(benchmark_because(trace), "");
  EXPECT_EQ(benchmark_because(TraceSummary{}), "");
}

// Where steps are marked, only of a kernel that the program brings.
TEST(Benchmarks, WithMarksAreOfTheProgramsOwnKernel) {
  TraceSummary trace = repeated(9);
  trace.steps.durations = {milliseconds(3), milliseconds(3)};
  trace.steps.source = StepSource::repetition;
  EXPECT_NE(benchmark_because(trace), "");
  trace.steps.source = StepSource::profiler_step;
  EXPECT_EQ(benchmark_because(trace), "");
  trace.orphans = {kernel_of("my_kernel", 4, milliseconds(20))};
  EXPECT_NE(benchmark_because(trace).find("of 'my_kernel' (4 runs of "), std::string::npos);
  trace.orphans.front().facts.library = "cublas";
  EXPECT_EQ(benchmark_because(trace), "");
}

// Two steps of 10 ms.
TraceSummary small_steps(std::int64_t kernels, Seconds each, double busy) {
  TraceSummary trace;
  trace.has_tables_of_window = true;
  trace.steps.durations = {milliseconds(10), milliseconds(10)};
  trace.time.span = milliseconds(20);
  trace.time.gpu_busy = busy * trace.time.span;
  trace.kernel_time_in_steps = each * static_cast<double>(kernels);
  trace.orphans = {kernel_of("a", kernels, trace.kernel_time_in_steps)};
  return trace;
}

TEST(Toys, RunAFewKernelsOfTwoMicrosecondsOnAnIdleGpu) {
  const auto is_toy = [](std::int64_t kernels, double each_us, double busy) {
    return !toy_because(small_steps(kernels, microseconds(each_us), busy)).empty();
  };
  EXPECT_TRUE(is_toy(6, 2, 0.1));
  EXPECT_FALSE(is_toy(5, 2, 0.1));
  EXPECT_TRUE(is_toy(200, 2, 0.1));
  EXPECT_FALSE(is_toy(201, 2, 0.1));
  EXPECT_TRUE(is_toy(6, 2.9, 0.1));
  EXPECT_FALSE(is_toy(6, 3, 0.1));
  EXPECT_FALSE(is_toy(6, 2, 0.101));
  EXPECT_FALSE(is_toy(0, 2, 0.1));
  EXPECT_EQ(toy_because(small_steps(6, microseconds(2), 0.1)).find("the GPU's 3 kernels a step"),
            0U);
  TraceSummary one = small_steps(6, microseconds(2), 0.1);
  one.steps.durations.clear();
  EXPECT_EQ(toy_because(one), "");
}

}  // namespace
}  // namespace rooftile
