#include "rooftile/analysis/trace/op_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/stages.h"
#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary table_of(const std::string& text) {
  const auto timeline = parse_timeline(text.c_str());
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

// Kernel time of each row in µs; a row whose operation is known has a star.
std::map<std::string, double> rows_of(const TraceSummary& summary) {
  std::map<std::string, double> rows;
  for (const OpUse& use : summary.ops) {
    rows[use.name + (use.op ? "*" : "")] += to_microseconds(use.kernel_time);
  }
  return rows;
}

using Rows = std::map<std::string, double>;

std::string kernel(int id, double at, double time) {
  const std::string corr = " corr=" + std::to_string(id);
  return "call main " + std::to_string(at) + "us 1us cudaLaunchKernel" + corr + "\nkernel 7 " +
         std::to_string(at + 2) + "us " + std::to_string(time) + "us k" + corr + "\n";
}

// Kernels that no operation launched: one of them tells a training run.
TEST(MeasuredWorkload, TrainsWhereAKernelIsOfTraining) {
  const auto trains_with = [](KernelUse kernel) {
    TraceSummary trace;
    trace.orphans = {std::move(kernel)};
    return trains(trace);
  };
  KernelUse kernel;
  kernel.name = "k";
  EXPECT_FALSE(trains_with(kernel));
  kernel.facts.kernel_class = KernelClass::optimizer;
  EXPECT_TRUE(trains_with(kernel));
  kernel.facts.kernel_class = KernelClass::gemm;
  kernel.facts.direction = KernelDirection::wgrad;
  EXPECT_TRUE(trains_with(kernel));
  kernel.facts.direction = KernelDirection::dgrad;
  EXPECT_TRUE(trains_with(kernel));
  kernel.facts = {};
  kernel.name = "batch_norm_backward_cuda_template";
  EXPECT_TRUE(trains_with(kernel));
}

// A recording of the host alone still has its steps.
TEST(Summarize, StepsOfAHostWithoutAGpu) {
  const TraceSummary summary = table_of(R"(
mark main 0us 10us ProfilerStep#1
mark main 10us 12us ProfilerStep#2
op main 1us 2us aten::add
op main 11us 2us aten::add
)");
  ASSERT_EQ(summary.steps.durations.size(), 2U);
  EXPECT_DOUBLE_EQ(to_microseconds(summary.steps.durations[1]), 12);
  EXPECT_EQ(summary.steps.source, StepSource::profiler_step);
}

// Four steps with a product, and one copy in the third: its time is its own, not a quarter of it.
TEST(OpTable, RareCallsKeepTheirTime) {
  const TraceSummary summary = table_of(R"(
repeat 4 every 10ms
mark main 0ms 10ms ProfilerStep#{i}
op main 1ms 100us aten::mm dims=[[512,512],[512,512]] types=[float,float]
call main 1.01ms 10us cudaLaunchKernel corr=1
kernel 7 1.03ms 1ms sgemm corr=1
end
op main 22.5ms 100us aten::gelu dims=[[1024]] types=[float]
call main 22.51ms 10us cudaLaunchKernel corr=900
kernel 7 22.53ms 242us gelu corr=900
)");
  const Workload workload = measured_workload({summary});
  ASSERT_EQ(workload.ops.size(), 2U);
  EXPECT_EQ(workload.ops[1].name, "aten::gelu");
  EXPECT_NEAR(to_microseconds(*workload.ops[1].measured), 242, 1e-6);
  EXPECT_EQ(workload.ops[1].count, 1);
  const std::vector<Seconds> in_pass = measured_times_in_pass(workload);
  EXPECT_NEAR(to_microseconds(in_pass[0]), 1000, 1e-6);
  EXPECT_NEAR(to_microseconds(in_pass[1]), 242.0 / 4, 1e-6);
}

// Calls of 8, 8, 12 and 2584 µs. Two kernels of one call add up.
TEST(OpTable, AnOutlierDoesNotMoveTheMedian) {
  std::string text;
  auto call = [&, id = 0](double at, std::initializer_list<double> kernels) mutable {
    text += "op main " + std::to_string(at) + "us 50us aten::gelu dims=[[1024]] types=[float]\n";
    for (const double time : kernels) {
      text += kernel(++id, at + 5, time);
      at += 20;
    }
  };
  call(0, {8});
  call(100, {6, 2});
  call(200, {12});
  call(300, {2584});
  const TraceSummary summary = table_of(text);
  ASSERT_EQ(summary.ops.size(), 1U);
  const OpUse& use = summary.ops[0];
  EXPECT_EQ(use.count, 4);
  EXPECT_NEAR(to_microseconds(use.kernel_time), 2612, 1e-6);
  EXPECT_NEAR(to_microseconds(spread_of(use.times, use.count).median), 10, 1e-6);
  EXPECT_NEAR(to_microseconds(*use.op->measured), 10, 1e-6);
  // Kernels alone: 2, 6, 8, 12, 2584.
  ASSERT_EQ(use.kernels.size(), 1U);
  EXPECT_NEAR(to_microseconds(spread_of(use.kernels[0].times, 5).median), 8, 1e-6);
}

constexpr const char* kMatmul = R"(
op main 0us 200us aten::matmul dims=[[8,64,32],[8,32,64]] types=[float,float]
op main 10us 40us aten::reshape dims=[[8,32,64]] types=[float]
op main 11us 30us aten::clone dims=[[8,32,64]] types=[float]
op main 12us 20us aten::copy_ dims=[[8,32,64],[8,32,64]] types=[float,float]
op main 60us 50us aten::bmm dims=[[8,64,32],[8,32,64]] types=[float,float]
)";

// The copy of an operand is not the product, which aten::bmm is already.
TEST(OpTable, ACompositeOwnsNoCopies) {
  const TraceSummary summary = table_of(kMatmul + kernel(1, 15, 30) + kernel(2, 70, 100));
  EXPECT_EQ(rows_of(summary), (Rows{{"aten::bmm*", 100}, {"aten::copy_*", 30}}));
}

// A layer norm that copies its input first: the norm keeps its own kernel alone.
TEST(OpTable, CopiesInsideAnOperationAreTheirOwn) {
  const TraceSummary summary = table_of(R"(
op main 0us 200us aten::native_layer_norm dims=[[64,256],[],[256],[256],[]] types=[float,ScalarList,float,float,Scalar]
op main 10us 40us aten::contiguous dims=[[64,256]] types=[float]
op main 11us 30us aten::clone dims=[[64,256]] types=[float]
op main 12us 20us aten::copy_ dims=[[64,256],[64,256]] types=[float,float]
)" + kernel(1, 15, 30) + kernel(2, 70, 100));
  EXPECT_EQ(rows_of(summary), (Rows{{"aten::copy_*", 30}, {"aten::native_layer_norm*", 100}}));
}

// What attention without a fused kernel runs beside its two products is not the attention.
TEST(OpTable, ACompositeIsNotPredictedForWhatItsPartsLeave) {
  const TraceSummary summary = table_of(R"(
op main 0us 500us aten::scaled_dot_product_attention dims=[[2,4,64,32],[2,4,64,32],[2,4,64,32],[],[],[]] types=[float,float,float,,Scalar,Scalar] values=[,,,,0.,False]
op main 1us 480us aten::_scaled_dot_product_attention_math dims=[[2,4,64,32]] types=[float]
op main 60us 50us aten::bmm dims=[[8,64,32],[8,32,64]] types=[float,float]
op main 150us 50us aten::_safe_softmax dims=[[2,4,64,64]] types=[float]
op main 250us 50us aten::bmm dims=[[8,64,64],[8,64,32]] types=[float,float]
)" + kernel(1, 70, 100) + kernel(2, 160, 10) +
                                        kernel(3, 260, 100));
  const Rows rows = rows_of(summary);
  EXPECT_EQ(rows.count("aten::scaled_dot_product_attention*"), 0U);
  EXPECT_NEAR(rows.at("aten::bmm*"), 200, 1e-6);
  EXPECT_NEAR(rows.at("aten::_scaled_dot_product_attention_math"), 10, 1e-6);
}

// An inner operator without a form of its own does the work of the outer one, also where sums run
// beside it, as in the backward pass of attention.
TEST(OpTable, AnImplementationBelongsToItsOperation) {
  const TraceSummary summary = table_of(R"(
op main 0us 500us aten::_scaled_dot_product_flash_attention dims=[[2,4,64,32],[2,4,64,32],[2,4,64,32],[],[],[],[]] types=[c10::Half,c10::Half,c10::Half,Scalar,Scalar,Scalar,] values=[,,,0.,False,False,]
op main 1us 100us aten::sum dims=[[2,4,64,32]] types=[c10::Half]
op main 200us 200us aten::_flash_attention_forward dims=[[2,64,4,32]] types=[c10::Half]
)" + kernel(1, 50, 5) + kernel(2, 260, 100));
  EXPECT_EQ(rows_of(summary),
            (Rows{{"aten::sum*", 5}, {"aten::_scaled_dot_product_flash_attention*", 100}}));
}

// One kernel, one product: 2 · 8 · 160 · 606 · 20 flop, whatever the layer.
TEST(OpTable, AProductOfTheBackwardPassIsOneGradient) {
  const TraceSummary summary = table_of(R"(
op autograd 1ms 300us autograd::engine::evaluate_function: BmmBackward0 id=3
op autograd 1.05ms 100us aten::bmm dims=[[8,160,20],[8,20,606]] types=[float,float]
call autograd 1.06ms 10us cudaLaunchKernel corr=1
kernel 7 1.1ms 1ms ampere_sgemm_128x128_tn corr=1
)");
  const Workload workload = measured_workload({summary});
  ASSERT_EQ(workload.ops.size(), 1U);
  EXPECT_EQ(workload.ops[0].phase, Phase::dgrad);
  EXPECT_EQ(count_cost(workload.ops[0]).flop.value(), 2.0 * 8 * 160 * 606 * 20);
}

// The kernels say which gradient they compute; one that converts the layout is of neither.
TEST(OpTable, TheBackwardPassOfAConvolutionIsTwoGradients) {
  auto timeline = parse_timeline(R"(
op backward 0us 500us aten::convolution_backward dims=[[2,512,2,2],[2,512,4,4],[512,512,3,3],[],[],[],[],[],[],[],[]] types=[float,float,float,ScalarList,ScalarList,ScalarList,ScalarList,Scalar,ScalarList,Scalar,ScalarList]
call backward 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 100us sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4 corr=1
call backward 130us 5us cudaLaunchKernel corr=2
kernel 7 140us 200us sm80_xmma_wgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4 corr=2
call backward 350us 5us cudaLaunchKernel corr=3
kernel 7 360us 30us nhwcToNchwKernel corr=3
)");
  ASSERT_TRUE(timeline) << to_string(timeline.error());
  timeline->arguments.back().values = {"",
                                       "",
                                       "",
                                       "[0]",
                                       "[2, 2]",
                                       "[1, 1]",
                                       "[1, 1]",
                                       "False",
                                       "[0, 0]",
                                       "1",
                                       "[True, True, False]"};
  const TraceSummary summary = summarize(*timeline);
  const auto time_of = [&](std::optional<Phase> phase) {
    double time = 0;
    for (const OpUse& use : summary.ops) {
      const auto of_row = use.op ? std::optional(use.op->phase) : std::nullopt;
      if (of_row == phase) time += to_microseconds(use.kernel_time);
    }
    return time;
  };
  EXPECT_NEAR(time_of(Phase::dgrad), 100, 1e-6);
  EXPECT_NEAR(time_of(Phase::wgrad), 200, 1e-6);
  EXPECT_NEAR(time_of(std::nullopt), 30, 1e-6);
}

TEST(OpTable, ServingStepsAreListedApart) {
  const TraceSummary summary = table_of(R"(
mark main 0us 100us execute_context_1(512)_generation_0(0)
op main 1us 50us aten::mm dims=[[512,512],[512,512]] types=[float,float]
mark main 200us 100us execute_context_0(0)_generation_4(4)
op main 201us 50us aten::mm dims=[[512,512],[512,512]] types=[float,float]
call main 260us 1us cudaGraphLaunch corr=8
kernel 7 400us 30us graph_node corr=8
)" + kernel(1, 5, 90) + kernel(2, 210, 40));
  ASSERT_EQ(summary.ops.size(), 2U);
  EXPECT_EQ(summary.ops[0].stage, ServingStage::prefill);
  EXPECT_EQ(summary.ops[1].stage, ServingStage::decode);
  ASSERT_EQ(summary.orphans.size(), 1U);
  EXPECT_EQ(summary.orphans[0].stage, ServingStage::decode);
}

TEST(Stages, LabelsOfEnginesAndUsers) {
  using trace::stage_of_label;
  EXPECT_EQ(stage_of_label("execute_context_3(512)_generation_0(0)"), ServingStage::prefill);
  EXPECT_EQ(stage_of_label("execute_context_3(512)_generation_32(32)"), ServingStage::mixed);
  EXPECT_EQ(stage_of_label("execute_77_context_0(sq0sk0)_generation_9(sq1sk300)"),
            ServingStage::decode);
  EXPECT_EQ(stage_of_label("step[DECODE bs=32]"), ServingStage::decode);
  EXPECT_EQ(stage_of_label("step[EXTEND bs=1 toks=107]"), ServingStage::prefill);
  EXPECT_EQ(stage_of_label("step[MIXED bs=2]"), ServingStage::mixed);
  EXPECT_EQ(stage_of_label("[Executor] _forward_step 7: 0 ctx reqs, 16 gen reqs"),
            ServingStage::decode);
  EXPECT_EQ(stage_of_label("prefill_forward"), ServingStage::prefill);
  EXPECT_EQ(stage_of_label("generate/decode 12"), ServingStage::decode);
  // A network's decoder is no stage, nor is the decoding of images.
  EXPECT_EQ(stage_of_label("decoder"), ServingStage::none);
  EXPECT_EQ(stage_of_label("decode_jpeg"), ServingStage::none);
  EXPECT_EQ(stage_of_label("execute_context"), ServingStage::none);
}

// Layers of a model of the same shape name what was recorded.
TEST(MeasuredWorkload, TakesNamesFromTheModel) {
  const auto product = [](const std::string& name, std::int64_t size) {
    Op op;
    op.name = name;
    op.body = Gemm{.m = size, .n = 64, .k = 32};
    op.source.line = size;
    return op;
  };
  Workload model, measured;
  model.ops = {product("fc1", 8), product("fc2", 16), product("again", 8)};
  model.sources = {"config.json"};
  measured.ops = {product("aten::mm", 8), product("aten::mm", 24)};
  measured.sources = {"trace.json"};
  const Workload joined = join_model(measured, model);
  ASSERT_EQ(joined.ops.size(), 2U);
  EXPECT_EQ(joined.ops[0].name, "fc1");
  EXPECT_EQ(joined.ops[0].source.line, 8);
  EXPECT_EQ(joined.ops[1].name, "aten::mm");
  EXPECT_EQ(joined.sources, (std::vector<std::string>{"trace.json", "config.json"}));
  ASSERT_EQ(joined.notes.size(), 1U);
  EXPECT_EQ(joined.notes[0].find("1 of 2 "), 0U);
}

// 4,096 rows of operators and twice 1,024 kernels without one, and one of each for the rest.
TEST(OpTable, RowsBeyondTheMostAreOne) {
  std::string text;
  for (int i = 1; i <= 4100; ++i) {
    const std::string at = std::to_string(20 * i), id = std::to_string(i);
    text += "op main " + at + "us 9us aten::op" + id + "\ncall main " + at +
            "us 1us cudaLaunchKernel corr=" + id + "\nkernel 7 " + at + "us 2us k corr=" + id +
            "\n";
    if (i <= 2053) text += "kernel 8 " + at + "us 3us own" + id + "\n";
  }
  const TraceSummary summary = table_of(text);
  ASSERT_EQ(summary.ops.size(), 4097U);
  EXPECT_EQ(summary.ops.front().name, kOtherKernels);
  EXPECT_EQ(summary.ops.front().count, 4);
  EXPECT_NEAR(to_microseconds(summary.ops.front().kernel_time), 8, 1e-6);
  ASSERT_EQ(summary.orphans.size(), 2049U);
  EXPECT_EQ(summary.orphans.front().name, kOtherKernels);
  EXPECT_EQ(summary.orphans.front().count, 5);
}

}  // namespace
}  // namespace rooftile
