#include "rooftile/pipeline/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/reports/trace_diff.h"

namespace rooftile {
namespace {

using testing::HasSubstr;
using testing::Not;

KernelUse kernel_of(const std::string& name, std::int64_t count, double ms) {
  KernelUse kernel;
  kernel.name = name;
  kernel.count = count;
  kernel.time = milliseconds(ms);
  return kernel;
}

OpUse op_of(const std::string& name, std::vector<std::vector<std::int64_t>> dims,
            std::vector<KernelUse> kernels) {
  OpUse use;
  use.name = name;
  use.arguments.types.assign(dims.size(), "c10::Half");
  use.arguments.dims = std::move(dims);
  for (const KernelUse& kernel : kernels) {
    use.count = kernel.count;
    use.kernel_time += kernel.time;
  }
  use.kernels = std::move(kernels);
  return use;
}

// Steps of `step` ms, in which the GPU computes `compute` ms and waits for data else.
TraceSummary training(const std::vector<double>& steps, double compute) {
  TraceSummary summary;
  summary.files = {"run.json"};
  summary.format = "Kineto";
  summary.device = {0, "NVIDIA A100", 0, 108, 8, 0};
  for (const double step : steps) {
    summary.steps.durations.push_back(milliseconds(step));
    summary.time.span += milliseconds(step);
  }
  summary.time.compute = summary.time.gpu_busy = milliseconds(compute) * window_steps(summary);
  summary.kernel_time = summary.kernel_time_in_steps = summary.time.compute;
  summary.time.idle = summary.time.span - summary.time.compute;
  summary.time.idle_by_cause[IdleCause::data_loading] = summary.time.idle;
  return summary;
}

TraceDiff diff_of(const TraceSummary& before, const TraceSummary& after) {
  return diff_traces({&before, 1}, {&after, 1});
}

TEST(TraceDiff, SaysWhatMadeTheStepShorter) {
  // 4 steps of mean 40 ms against 2 of 30 ms, computing 20 and 19 ms.
  const TraceDiff diff =
      diff_of(training({39, 41, 40, 40}, 20), training({30, 30, 29.5, 30.5}, 19));
  EXPECT_TRUE(diff.is_per_step);
  EXPECT_NEAR(diff.span.before.value(), 0.040, 1e-9);
  EXPECT_NEAR(diff.span.after.value(), 0.030, 1e-9);
  ASSERT_EQ(diff.parts.size(), 2U);
  EXPECT_EQ(diff.parts[0].key, "idle.data_loading");
  EXPECT_NEAR(diff.parts[0].time.change().value(), -0.009, 1e-9);
  EXPECT_EQ(diff.parts[1].key, "compute");
  // 39, 41, 40, 40 lie 1, 1, 0, 0 from their median: half a millisecond, times 1.4826.
  ASSERT_TRUE(diff.spread);
  EXPECT_NEAR(diff.spread->value(), 0.0007413, 1e-12);
  EXPECT_EQ(verdict_of(diff), TraceVerdict::faster);
  EXPECT_THAT(render_trace_diff_text(diff),
              HasSubstr("Step 40.0 → 30.0 ms (−25 %): data loading −9.00 ms, compute −1.00 ms."));
}

TEST(TraceDiff, CallsSmallChangesNoise) {
  const TraceDiff diff = diff_of(training({36, 44, 40}, 20), training({39, 38, 40}, 20));
  EXPECT_EQ(verdict_of(diff), TraceVerdict::noise);
  EXPECT_THAT(render_trace_diff_text(diff), HasSubstr("no more than steps vary"));
  const TraceDiff same = diff_of(training({40, 40, 40}, 20), training({40, 40, 40}, 20));
  EXPECT_EQ(verdict_of(same), TraceVerdict::noise);
  const TraceDiff slower = diff_of(training({30, 31, 30}, 20), training({40, 41, 40}, 20));
  EXPECT_EQ(verdict_of(slower), TraceVerdict::slower);
}

// A standard deviation of 31 ms would hide the change of 30.
TEST(TraceDiff, OneOddStepHidesNoChange) {
  const TraceDiff diff =
      diff_of(training({152, 150, 154, 151, 229}, 100), training({122, 121, 123, 122, 120}, 100));
  EXPECT_EQ(verdict_of(diff), TraceVerdict::faster);
}

TEST(TraceDiff, ComparesWholesWithoutSteps) {
  TraceSummary before = training({40, 40, 40}, 20), after = training({30, 30, 30}, 20);
  after.steps.durations.clear();
  const TraceDiff diff = diff_of(before, after);
  EXPECT_FALSE(diff.is_per_step || diff.spread);
  EXPECT_NEAR(diff.span.before.value(), 0.120, 1e-9);
  EXPECT_THAT(render_trace_diff_text(diff), HasSubstr("whole recordings are compared"));
}

TEST(TraceDiff, PartsAddUpToTheSpan) {
  TraceSummary before = training({40, 41}, 20), after = training({35, 33}, 22);
  before.time.idle_by_cause = {{IdleCause::launch, milliseconds(11)},
                               {IdleCause::synchronization, milliseconds(30)}};
  before.time.exposed_copy = milliseconds(2);
  before.time.compute = before.time.compute - milliseconds(2);
  const TraceDiff diff = diff_of(before, after);
  ChangedTime sum;
  for (const TraceDiffPart& part : diff.parts) {
    sum.before += part.time.before;
    sum.after += part.time.after;
  }
  EXPECT_NEAR(sum.before.value(), diff.span.before.value(), 1e-12);
  EXPECT_NEAR(sum.after.value(), diff.span.after.value(), 1e-12);
}

TEST(TraceDiff, MatchesOperatorsAndKernels) {
  TraceSummary before = training({40, 40}, 20), after = training({30, 30}, 18);
  before.ops = {op_of("aten::mm", {{512, 100}, {100, 64}}, {kernel_of("gemm_align2", 4, 20)}),
                op_of("aten::relu", {{512, 64}}, {kernel_of("elementwise", 2, 3)}),
                op_of("aten::dropout", {{512, 64}}, {kernel_of("fused_dropout", 2, 2.5)})};
  before.orphans = {kernel_of("fill", 2, 1)};
  after.ops = {op_of("aten::mm", {{512, 104}, {104, 64}}, {kernel_of("gemm_align8", 4, 12)}),
               op_of("aten::relu", {{512, 64}}, {kernel_of("elementwise", 2, 3.03)})};
  after.orphans = {kernel_of("fill", 2, 3), kernel_of("memory_copy", 8, 4)};
  const TraceDiff diff = diff_of(before, after);
  ASSERT_EQ(diff.ops.size(), 2U);
  EXPECT_EQ(diff.ops[0].name, "aten::mm");
  EXPECT_EQ(diff.ops[0].shapes_before, "512×100, 100×64 Half");
  EXPECT_EQ(diff.ops[0].shapes_after, "512×104, 104×64 Half");
  EXPECT_NEAR(diff.ops[0].kernels.change().value(), -0.004, 1e-12);
  EXPECT_EQ(diff.ops[0].runs.after, 2);
  EXPECT_EQ(diff.ops[1].name, "aten::dropout");
  EXPECT_EQ(diff.ops[1].runs.after, 0);
  EXPECT_EQ(diff.same_ops, 1);
  std::vector<std::string> kernels;
  for (const TraceDiffKernel& kernel : diff.kernels) {
    kernels.push_back(kernel.before + ">" + kernel.after);
  }
  EXPECT_THAT(kernels, testing::ElementsAre("gemm_align2>gemm_align8", ">memory_copy",
                                            "fused_dropout>", "fill>fill"));
  EXPECT_EQ(diff.kernels[0].op, "aten::mm");
  EXPECT_EQ(diff.same_kernels, 1);
  const std::string text = render_trace_diff_text(diff);
  EXPECT_THAT(text, HasSubstr("replaced"));
  EXPECT_THAT(text, HasSubstr("… and 1 unchanged"));
}

TEST(TraceDiff, PairsRanks) {
  std::vector<TraceSummary> before, after;
  for (const int rank : {0, 1, 2}) {
    before.push_back(training({40.0 + rank, 40.0 + rank}, 20));
    before.back().rank = rank;
  }
  for (const int rank : {2, 1, 7}) {
    after.push_back(training({30.0 + rank, 30.0 + rank}, 20));
    after.back().rank = rank;
  }
  const TraceDiff diff = diff_traces(before, after);
  EXPECT_EQ(diff.paired_ranks, 2);
  EXPECT_NEAR(diff.span.before.value(), 0.0415, 1e-12);  // ranks 1 and 2
  EXPECT_NEAR(diff.span.after.value(), 0.0315, 1e-12);
  EXPECT_THAT(render_trace_diff_text(diff), HasSubstr("2 of 3 and 3 recordings"));
  const TraceDiff none = diff_traces(before, {});
  EXPECT_EQ(none.paired_ranks, 0);
  EXPECT_THAT(render_trace_diff_text(none), HasSubstr("No recording of one side"));
  EXPECT_THAT(render_trace_diff_json(none), HasSubstr("\"paired_ranks\": 0"));
}

TEST(TraceDiff, NotesAnotherClock) {
  TraceSummary before = training({40, 40}, 20), after = training({44, 44}, 22);
  before.orphans = {kernel_of("a", 2, 10), kernel_of("b", 4, 8), kernel_of("c", 4, 2)};
  after.orphans = {kernel_of("a", 2, 11), kernel_of("b", 4, 8.8), kernel_of("c", 8, 2)};
  EXPECT_THAT(render_trace_diff_text(diff_of(before, after)), HasSubstr("take 10 % longer"));
  after.device->name = "NVIDIA H100";
  const std::string text = render_trace_diff_text(diff_of(before, after));
  EXPECT_THAT(text, HasSubstr("The GPUs differ."));
  EXPECT_THAT(text, Not(HasSubstr("take 10 % longer")));
}

}  // namespace
}  // namespace rooftile
