#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/analysis/trace/measured_workload.h"
#include "rooftile/analysis/trace/summarize.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/rules/rule.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

using testing::HasSubstr;

std::vector<Finding> findings_of(std::string_view rule, const std::vector<std::string>& ranks) {
  std::vector<TraceSummary> traces;
  for (const std::string& rank : ranks) {
    const auto timeline = parse_timeline(rank);
    EXPECT_TRUE(timeline) << to_string(timeline.error());
    traces.push_back(summarize(*timeline));
  }
  const Workload workload = measured_workload(std::move(traces));
  const TimeModel model(*find_device("h100_sxm"));
  const Analysis analysis = analyse(workload, model);
  const Rule* const rules[] = {find_rule(rule)};
  return run_rules({workload, analysis, model, Graph(workload)}, rules);
}

std::string fix_of(const std::string& trace) {
  const auto findings = findings_of("distributed/exposed-communication", {trace});
  EXPECT_EQ(findings.size(), 1U);
  return findings.empty() ? "" : findings.front().fix.text;
}

constexpr const char* kLayer =
    "kernel 7 10us 500us nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT corr=1";

// A layer, then a collective alone; `collective` is its kernel with what is recorded of it.
std::string inference(const std::string& collective, const std::string& layer = kLayer) {
  return fmt::format(R"(
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{{i}}
op main 0us 20us aten::mm id=1
call main 5us 4us cudaLaunchKernel corr=1 id=1
{1}
op main 30us 20us c10d::op id=2
call main 35us 4us cudaLaunchKernel corr=2 id=2
kernel 20 520us 400us {0} corr=2
call main 60us 862us cudaStreamSynchronize
end
)",
                     collective, layer);
}

std::string all_reduce(std::int64_t elements) {
  return fmt::format(
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(all) collective=allreduce dtype=BFloat16 in={0} "
      "out={0} group=0 ranks=8",
      elements);
}

// Of half a millisecond of layers.
std::string with_fp32(int microseconds) {
  return fmt::format(
      "kernel 7 10us {}us ampere_sgemm_128x64_tn corr=1\n"
      "kernel 7 {}us {}us nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT corr=1",
      microseconds, 10 + microseconds, 500 - microseconds);
}

TEST(ExposedCommunication, NamesTheRemedyForItsKind) {
  const std::string exchange = inference(
      "ncclDevKernel_SendRecv(all) collective=all_to_allv dtype=BFloat16 in=4000000 out=4000000 "
      "group=0 ranks=8");
  EXPECT_THAT(fix_of(exchange), HasSubstr("another micro-batch"));
  EXPECT_THAT(fix_of(exchange + "kernel 7 2990us 5us fused_moe_kernel\n"),
              HasSubstr("dispatch and combine"));
  EXPECT_THAT(fix_of(inference("ncclDevKernel_SendRecv(all) collective=send dtype=BFloat16 "
                               "in=4000000 out=4000000 group=0 ranks=2")),
              HasSubstr("pipeline"));
  // Serving: no gradients, no buckets.
  EXPECT_THAT(fix_of(inference("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(all) "
                               "collective=allreduce dtype=BFloat16 in=4000000 out=4000000 "
                               "group=0 ranks=8")),
              HasSubstr("tensor-parallel"));
}

TEST(ExposedCommunication, AnAllReduceOfLayersIsShortenedByWhatTheyAndTheGpuAllow) {
  const std::string small = inference(all_reduce(40'000));
  const std::pair<std::string, const char*> cases[] = {
      // 8 MiB, and one element more.
      {inference(all_reduce(4'194'304)), "a one-shot all-reduce for small messages"},
      {inference(all_reduce(4'194'305)), "behind the layers of the other"},
      {inference("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(all)"), "a one-shot all-reduce"},
      {inference(all_reduce(40'000), with_fp32(250)), "a one-shot all-reduce"},
      {inference(all_reduce(40'000), with_fp32(260)), "16 bits, which halves"},
      {small + "device 0 NVIDIA GeForce RTX 4090 cc=8.9\n", "ranks, or replicate small layers"},
      {small + "device 0 NVIDIA H100 cc=9.0\n", "a one-shot all-reduce for small messages"},
      {small + "mark main 2990us 5us execute_context_0(0)_generation_8(8)\n",
       "the engine's one-shot all-reduce"},
      {small + "kernel 20 2950us 5us void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(p)\n",
       "small ones are a single kernel already"},
      {inference("ncclDevKernel_Broadcast_RING_LL(all) collective=broadcast dtype=BFloat16 "
                 "in=4000000 out=4000000 group=0 ranks=8"),
       "broadcast_buffers=False"}};
  for (const auto& [trace, words] : cases) EXPECT_THAT(fix_of(trace), HasSubstr(words)) << trace;
}

constexpr const char* kExchange =
    "ncclDevKernel_SendRecv(all) collective=all_to_allv dtype=BFloat16 in=4000000 out=4000000 "
    "group=0 ranks=8";

TEST(ExposedCommunication, ExpertsAreKnownByAllThatIsNamed) {
  const auto fix_with = [](const char* range, const char* op, const char* kernel) {
    return fix_of(inference(kExchange) + fmt::format(R"(
{}
op main 2970us 9us {} id=7
call main 2972us 2us cudaLaunchKernel corr=7 id=7
kernel 7 2990us 5us {} corr=7
)",
                                                     range, op, kernel));
  };
  EXPECT_THAT(fix_with("", "aten::mm", "gemm"), HasSubstr("another micro-batch"));
  EXPECT_THAT(fix_with("", "aten::mm", "embedding_bag"), HasSubstr("TrainPipelineSparseDist"));
  for (const std::string& fix :
       {fix_with("", "vllm::moe_forward", "gemm"), fix_with("", "aten::mm", "grouped_gemm"),
        fix_with("python main 2969us 12us nn.Module: Experts_0", "aten::mm", "gemm"),
        fix_with("python main 2969us 12us models/moe.py(88): forward", "aten::mm", "gemm"),
        fix_with("mark main 2970us 9us moe_dispatch", "aten::mm", "gemm")}) {
    EXPECT_THAT(fix, HasSubstr("dispatch and combine"));
  }
}

TEST(ExposedCommunication, AnExchangeIsHiddenNoLongerThanTheGpuComputes) {
  const auto findings = findings_of(
      "distributed/exposed-communication",
      {inference(kExchange,
                 "kernel 7 10us 100us nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT corr=1")});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(to_microseconds(findings[0].saving->high), 100, 0.1);
  EXPECT_NEAR(to_microseconds(findings[0].saving->expected), 50, 0.1);
  EXPECT_EQ(findings[0].saving->low, Seconds());
}

TEST(ExposedCommunication, ExpertsStayWithinANodeWhereTheySpanSeveral) {
  const auto fix_with = [](int ranks, int devices) {
    std::string trace = inference(kExchange) +
                        fmt::format("kernel 7 2990us 5us fused_moe_kernel\nrank 0 of {}\n", ranks);
    for (int i = 0; i < devices; ++i) trace += fmt::format("device {} NVIDIA H100\n", i);
    return fix_of(trace);
  };
  EXPECT_THAT(fix_with(9, 8), HasSubstr("within a node"));
  EXPECT_THAT(fix_with(3, 2), HasSubstr("within a node"));
  for (const auto& [ranks, devices] : {std::pair(8, 8), std::pair(8, 1)}) {
    EXPECT_THAT(fix_with(ranks, devices),
                testing::EndsWith("(a second micro-batch, shared experts)"))
        << ranks << " ranks, " << devices << " devices";
  }
}

TEST(ExposedCommunication, AKernelOfSendsAndReceivesMayBeAnAllToAll) {
  const std::string trace = inference("ncclDevKernel_SendRecv(all)");
  EXPECT_THAT(fix_of(trace), HasSubstr("does not say which"));
  EXPECT_THAT(fix_of(trace + "kernel 7 2990us 5us embedding_bag\n"),
              HasSubstr("TrainPipelineSparseDist"));
}

TEST(ExposedCommunication, AOneShotAllReduceIsNotAdvisedTwice) {
  const std::string fix =
      fix_of(inference("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>()"));
  EXPECT_THAT(fix, HasSubstr("fewer tensor-parallel ranks"));
  EXPECT_THAT(fix, testing::Not(HasSubstr("one-shot")));
}

TEST(ExposedCommunication, EmbeddingTablesExchangeWhileOtherLayersCompute) {
  const std::string trace = inference(
      "ncclDevKernel_SendRecv(all) collective=all_to_allv dtype=Float in=4000000 out=4000000 "
      "group=0 ranks=8");
  EXPECT_THAT(
      fix_of(trace +
             "kernel 7 2990us 5us void split_embedding_codegen_forward_unweighted_kernel<float>\n"),
      HasSubstr("TrainPipelineSparseDist"));
}

// A backward pass of 400 us, then `count` reductions of `elements` each, one behind the other; of
// no elements: whose sizes are not recorded.
std::string training(int count, std::int64_t elements, bool by_autograd) {
  std::string text = R"(
op main 0us 5us aten::mm id=1
call main 1us 2us cudaLaunchKernel corr=1 id=1
kernel 7 10us 90us ampere_sgemm_128x64_tn corr=1
op backward 10us 5us MmBackward0 id=2
call backward 11us 2us cudaLaunchKernel corr=2 id=2
kernel 7 100us 400us ampere_sgemm_128x64_nt corr=2
)";
  const int each = 400 / count;
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "op {0} {1}us 1us {2} id={3}\n"
        "call {0} {1}us 1us cudaLaunchKernel corr={3} id={3}\n"
        "kernel 20 {4}us {5}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) corr={3}{6}\n",
        by_autograd ? "backward" : "main", 20 + i,
        by_autograd ? "torch::autograd::AccumulateGrad" : "c10d::allreduce_", 10 + i,
        500 + i * each, each,
        elements == 0
            ? ""
            : fmt::format(" collective=allreduce dtype=Float in={0} out={0} group=0 ranks=8",
                          elements));
  }
  return text;
}

TEST(ExposedCommunication, GradientsOneByOneBelongInBuckets) {
  // 100 x 0.4 MB = 40 MB: two buckets of 25 MiB; with the first and the last, four.
  EXPECT_THAT(fix_of(training(100, 100'000, true)),
              HasSubstr("100 all-reduces per step of 391 KiB on average would be about 4"));
  // Of 25 MiB in all: four times three is far more.
  EXPECT_THAT(fix_of(training(12, 546'000, true)), HasSubstr("would be about 3"));
  EXPECT_THAT(fix_of(training(11, 595'000, true)), HasSubstr("first bucket be ready early"));
  // Without sizes 32 are many.
  EXPECT_THAT(fix_of(training(32, 0, true)), HasSubstr("32 all-reduces per step, half of them"));
  EXPECT_THAT(fix_of(training(31, 0, true)), HasSubstr("first bucket be ready early"));
  EXPECT_THAT(fix_of(training(2, 5'000'000, true)), HasSubstr("bucket_cap_mb"));
  EXPECT_THAT(fix_of(training(4, 2'500'000, false)), HasSubstr("during the backward pass"));
}

// Three ranks that compute alike; the first comes 300 us after the last of the others.
std::string rank(int number, int late_us) {
  return fmt::format(R"(
rank {0} of 3
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{{i}}
kernel 7 {1}us 300us ampere_sgemm_128x64_tn
kernel 20 {2}us {3}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) collective=allreduce dtype=Float in=1000000 out=1000000 group=0 ranks=3
end
)",
                     number, 10 + late_us, 310 + late_us, 690 - late_us);
}

// 40 reductions a step, without sizes.
std::string reductions_of(int microseconds) {
  std::string trace;
  for (int step = 0; step < 3; ++step) {
    trace += fmt::format(R"(
mark main {0}us 2000us ProfilerStep#{1}
op main {0}us 5us aten::mm id=9 seq=7 dims=[[512,512],[512,512]] types=[float,float]
op autograd {2}us 1800us autograd::engine::evaluate_function: MmBackward0 id=8 seq=7
op autograd {2}us 1790us aten::mm id=7 dims=[[512,512],[512,512]] types=[float,float]
call autograd {3}us 2us cudaLaunchKernel corr=1 id=7
kernel 7 {4}us 10us ampere_sgemm_128x64_tn corr=1
repeat 40 every {8}us
call autograd {5}us 1us cudaLaunchKernel corr=2 id=7
kernel 20 {6}us {9}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*) corr=2
end
repeat 40 every {8}us
call autograd {5}us 1us cudaLaunchKernel corr=3 id=7
kernel 7 {7}us 10us ampere_sgemm_128x64_tn corr=3
end
)",
                         2000 * step, step, 2000 * step + 6, 2000 * step + 8, 2000 * step + 12,
                         2000 * step + 15, 2000 * step + 30, 2000 * step + 30 + microseconds,
                         10 + microseconds, microseconds);
  }
  return trace;
}

// 25 MiB take 29.1 us at 900 GB/s.
TEST(ExposedCommunication, ShortReductionsWithoutSizesAreNoBuckets) {
  for (const int short_ones : {10, 29}) {
    EXPECT_THAT(fix_of(reductions_of(short_ones)),
                HasSubstr(fmt::format("half of them below {}.0 µs, are one for each", short_ones)));
  }
  EXPECT_THAT(fix_of(reductions_of(30)), HasSubstr("bucket_cap_mb"));
}

// Each step has a backward pass of 600 us, and `count` buckets of which the first begins when
// `before` of it have gone by.
std::string buckets(int before, int count) {
  std::string text = R"(
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{i}
op main 0us 2us aten::mm id=9
call main 0us 1us cudaLaunchKernel corr=9 id=9
kernel 7 2us 7us ampere_sgemm_128x64_tn corr=9
op autograd 3us 20us autograd::engine::evaluate_function: MmBackward0 id=1
call autograd 5us 4us cudaLaunchKernel corr=1 id=1
kernel 7 10us 600us ampere_sgemm_128x64_tn corr=1
call main 30us 945us cudaStreamSynchronize
)";
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "call autograd {}us 1us cudaLaunchKernel corr={} id=1\n"
        "kernel 20 {}us 150us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) collective=allreduce "
        "dtype=Float in=25000000 out=25000000 group=0 ranks=8 corr={}\n",
        5 + i, 2 + i, 10 + before + 150 * i, 2 + i);
  }
  return text + "end\n";
}

TEST(ExposedCommunication, ABucketIsLateFromThreeFifthsOfTheBackwardPassOn) {
  EXPECT_THAT(fix_of(buckets(372, 3)), HasSubstr("first bucket be ready early"));
  EXPECT_THAT(fix_of(buckets(348, 3)), HasSubstr("bucket_cap_mb"));
  EXPECT_THAT(fix_of(buckets(372, 2)), HasSubstr("bucket_cap_mb"));  // too few to tell
}

// A reduce-scatter that the backward pass launches, or what follows it.
std::string shards(bool in_backward) {
  return fmt::format(R"(
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{{i}}
op main 0us 2us aten::mm id=9
call main 0us 1us cudaLaunchKernel corr=9 id=9
kernel 7 2us 7us ampere_sgemm_128x64_tn corr=9
op autograd 3us 20us autograd::engine::evaluate_function: MmBackward0 id=1
call autograd 5us 4us cudaLaunchKernel corr=1 id=1
kernel 7 10us 500us ampere_sgemm_128x64_tn corr=1
call {} cudaLaunchKernel corr=2{}
kernel 20 520us 300us ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(all) collective=_reduce_scatter_base dtype=Float in=4000000 out=500000 group=0 ranks=8 corr=2
call main 60us 790us cudaStreamSynchronize
end
)",
                     in_backward ? "autograd 16us 1us" : "main 40us 1us",
                     in_backward ? " id=1" : "");
}

TEST(ExposedCommunication, ShardsAreSentDuringTheBackwardPass) {
  EXPECT_THAT(fix_of(shards(true)), HasSubstr("each all-gather before its result is needed"));
  EXPECT_THAT(fix_of(shards(false)), HasSubstr("during the backward pass, when its gradient"));
  for (const char* range : {"FSDP::pre_forward", "DeepSpeedEngine.step"}) {
    EXPECT_THAT(fix_of(shards(true) + fmt::format("mark main 1us 1us {}\n", range)),
                HasSubstr("Prefetch the next layer's weights"));
  }
}

// NCCL connects in the first of ten.
TEST(ExposedCommunication, TheFirstRunThatConnectsIsNotCounted) {
  const auto findings = findings_of("distributed/exposed-communication", {R"(
call main 0us 4us cudaLaunchKernel corr=1
kernel 20 10us 400ms ncclDevKernel_AllGather_RING_LL(ncclDevComm*) corr=1
call main 100us 399910us cudaStreamSynchronize
repeat 9 every 10ms
call main 401ms 4us cudaLaunchKernel corr=2
kernel 20 401100us 4ms ncclDevKernel_AllGather_RING_LL(ncclDevComm*) corr=2
call main 401200us 4us cudaLaunchKernel corr=3
kernel 7 405200us 5700us ampere_sgemm_128x64_tn corr=3
end
)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LE(to_milliseconds(findings.front().saving->high), 40.1);
  EXPECT_GE(to_milliseconds(findings.front().saving->high), 30);
  EXPECT_THAT(findings.front().message, HasSubstr("beside 396 ms for ranks that come later"));
  EXPECT_THAT(findings.front().fix.text, HasSubstr("16 bits"));
}

TEST(Straggler, TheNextRankBoundsItsCost) {
  // Rank 2 arrives 500 us after rank 0 and 100 us after rank 1.
  const auto findings =
      findings_of("distributed/straggler", {rank(0, 0), rank(1, 400), rank(2, 500)});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message, HasSubstr("rank 2 is the straggler, the last at 3 of 3"));
  ASSERT_TRUE(findings[0].saving);
  EXPECT_NEAR(to_microseconds(findings[0].saving->expected), 100, 1);
  EXPECT_NEAR(to_microseconds(findings[0].saving->high), 100, 1);
}

// Four collectives of 1 ms that rank `late` enters 2 ms after the others, each rank of the list by
// turns.
std::string rank_of_turns(int self, const std::vector<int>& late) {
  std::string text = fmt::format("rank {} of 8\n", self);
  for (int run = 0; run < 4; ++run) {
    const bool is_last = late[static_cast<std::size_t>(run) % late.size()] == self;
    text += fmt::format(R"(
mark main {0}ms 5ms ProfilerStep#{1}
call main {0}ms 4us cudaLaunchKernel corr={4}
call main {0}ms 4us cudaLaunchKernel corr={5}
kernel 7 {0}ms 1ms gemm corr={4}
kernel 20 {2}ms {3}ms ncclDevKernel_AllReduce_Sum_f32_RING_LL() corr={5}
)",
                        5 * run, run, 5 * run + (is_last ? 4 : 2), is_last ? 1 : 3, 2 * run + 1,
                        2 * run + 2);
  }
  return text;
}

TEST(Straggler, OfManyRanksAQuarterMayTakeTurns) {
  const auto with = [](const std::vector<int>& late) {
    std::vector<std::string> ranks;
    for (int self = 0; self < 8; ++self) ranks.push_back(rank_of_turns(self, late));
    return findings_of("distributed/straggler", ranks);
  };
  const auto findings = with({2, 5});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message,
              HasSubstr("ranks 2, 5 are stragglers by turns, the last at 4 of 4"));
  ASSERT_TRUE(findings[0].saving);
  EXPECT_NEAR(to_milliseconds(findings[0].saving->expected), 2, 1e-3);
  EXPECT_TRUE(with({0, 1, 2, 3}).empty());  // jitter: two are the last at half, and wait as much
}

// A step of 2 ms for each run: `compute` of computation, and a collective that this rank is in for
// so long, all in microseconds.
std::string rank_of_runs(int self, int compute, const std::vector<int>& runs) {
  std::string text = fmt::format("rank {} of 2\n", self);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    text += fmt::format(R"(
mark main {0}us 2ms ProfilerStep#{1}
kernel 7 {0}us {2}us gemm
kernel 20 {3}us {4}us ncclDevKernel_AllReduce_Sum_f32_RING_LL()
)",
                        2000 * i, i, compute, 2000 * i + 1000, runs[i]);
  }
  return text;
}

// `others` times one run, then `more` times another.
std::vector<int> runs_of(int others, int run, int more, int other) {
  std::vector<int> runs(static_cast<std::size_t>(others), run);
  runs.insert(runs.end(), static_cast<std::size_t>(more), other);
  return runs;
}

TEST(Straggler, IsMostlyLastWaitsLittleItselfAndComputesNoLonger) {
  struct Case {
    std::vector<int> runs, other_runs;  // of the late rank, and of the one that waits
    int compute = 500;                  // of the late rank; the other one computes for 500
    bool is_told = false;
  };
  const Case cases[] = {
      // A quarter of the gain is beside the two longest waits, or less.
      {{100, 100, 200}, {200, 200, 400}, 500, true},
      {{108, 100, 200}, {200, 200, 400}, 500, false},
      // The last at half of the collectives, or at fewer.
      {runs_of(4, 100, 4, 101), runs_of(4, 300, 4, 100), 500, true},
      {runs_of(3, 100, 5, 101), runs_of(3, 300, 5, 100), 500, false},
      // It waits itself for 24 % or 28 % of what the other one waits.
      {runs_of(5, 100, 3, 180), runs_of(5, 300, 3, 100), 500, true},
      {runs_of(5, 100, 3, 195), runs_of(5, 300, 3, 100), 500, false},
      // Longer computation explains less than half of it, or more.
      {runs_of(4, 100, 0, 0), runs_of(4, 300, 0, 0), 595, true},
      {runs_of(4, 100, 0, 0), runs_of(4, 300, 0, 0), 605, false},
      // One per cent of the step.
      {runs_of(4, 100, 0, 0), runs_of(4, 121, 0, 0), 500, true},
      {runs_of(4, 100, 0, 0), runs_of(4, 119, 0, 0), 500, false},
  };
  for (const Case& c : cases) {
    const auto findings =
        findings_of("distributed/straggler",
                    {rank_of_runs(0, 500, c.other_runs), rank_of_runs(1, c.compute, c.runs)});
    EXPECT_EQ(findings.size(), c.is_told ? 1U : 0U)
        << testing::PrintToString(c.runs) << " " << testing::PrintToString(c.other_runs);
  }
}

TEST(Straggler, OfThreeRanksTwoThatTakeTurnsAreNone) {
  EXPECT_TRUE(findings_of("distributed/straggler", {rank_of_runs(0, 500, {300, 300, 300, 300}),
                                                    rank_of_runs(1, 500, {100, 300, 100, 300}),
                                                    rank_of_runs(2, 500, {300, 100, 300, 100})})
                  .empty());
}

TEST(RankImbalance, IsTheLongerComputationAsFarAsOthersWait) {
  struct Case {
    int compute, other_compute, other_run;
    double saved;  // in microseconds; 0 where nothing is told
  };
  for (const Case& c : {Case{552, 448, 300, 52}, Case{548, 452, 300, 0}, Case{700, 300, 30, 30},
                        Case{700, 300, 21, 21}, Case{700, 300, 19, 0}}) {
    const auto findings =
        findings_of("distributed/rank-imbalance",
                    {rank_of_runs(0, c.other_compute, runs_of(3, c.other_run, 0, 0)),
                     rank_of_runs(1, c.compute, runs_of(3, 100, 0, 0))});
    ASSERT_EQ(findings.size(), c.saved > 0 ? 1U : 0U) << c.compute << " " << c.other_run;
    if (findings.empty()) continue;
    EXPECT_NEAR(to_microseconds(findings[0].saving->expected), c.saved, 0.1);
    EXPECT_NEAR(to_microseconds(findings[0].saving->high), c.saved, 0.1);
    EXPECT_NEAR(to_microseconds(findings[0].saving->low), c.saved / 2, 0.1);
  }
}

TEST(RankImbalance, ComparesRanksOfOneJob) {
  const std::string fast = rank_of_runs(0, 300, runs_of(3, 300, 0, 0));
  const std::string slow = rank_of_runs(1, 700, runs_of(3, 100, 0, 0));
  const auto count = [&](const std::string& other) {
    return findings_of("distributed/rank-imbalance", {fast, other}).size();
  };
  EXPECT_EQ(count(slow), 1U);
  std::string of_four = slow;
  EXPECT_EQ(count(of_four.replace(of_four.find("of 2"), 4, "of 4")), 0U);
  std::string alone = slow;  // without collectives
  for (auto at = alone.find("ncclDevKernel"); at != std::string::npos;
       at = alone.find("ncclDevKernel")) {
    alone.replace(at, alone.find('\n', at) - at, "gemm");
  }
  EXPECT_EQ(count(alone), 0U);
}

}  // namespace
}  // namespace rooftile
