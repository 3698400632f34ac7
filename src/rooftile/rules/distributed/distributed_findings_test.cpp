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

// A layer, then a collective alone; `collective` is its kernel with what is recorded of it.
std::string inference(const std::string& collective) {
  return fmt::format(R"(
repeat 3 every 1ms
mark main 0us 1ms ProfilerStep#{{i}}
op main 0us 20us aten::mm id=1
call main 5us 4us cudaLaunchKernel corr=1 id=1
kernel 7 10us 500us nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT corr=1
op main 30us 20us c10d::op id=2
call main 35us 4us cudaLaunchKernel corr=2 id=2
kernel 20 520us 400us {} corr=2
call main 60us 862us cudaStreamSynchronize
end
)",
                     collective);
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

TEST(ExposedCommunication, AKernelOfSendsAndReceivesMayBeAnAllToAll) {
  EXPECT_THAT(fix_of(inference("ncclDevKernel_SendRecv(all)")), HasSubstr("does not say which"));
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

// A backward pass of 400 us, then `count` reductions of `elements` each, one behind the other.
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
        "kernel 20 {4}us {5}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) corr={3} "
        "collective=allreduce dtype=Float in={6} out={6} group=0 ranks=8\n",
        by_autograd ? "backward" : "main", 20 + i,
        by_autograd ? "torch::autograd::AccumulateGrad" : "c10d::allreduce_", 10 + i,
        500 + i * each, each, elements);
  }
  return text;
}

TEST(ExposedCommunication, GradientsOneByOneBelongInBuckets) {
  // 100 x 0.4 MB = 40 MB: two buckets of 25 MiB; with the first and the last, four.
  EXPECT_THAT(fix_of(training(100, 100'000, true)),
              HasSubstr("100 all-reduces per step of 391 KiB on average would be about 4"));
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

// 40 reductions a step of 10 us each, without sizes: 25 MiB take 29 us at 900 GB/s.
TEST(ExposedCommunication, ShortReductionsWithoutSizesAreNoBuckets) {
  std::string trace;
  for (int step = 0; step < 3; ++step) {
    trace += fmt::format(R"(
mark main {0}us 1000us ProfilerStep#{1}
op main {0}us 5us aten::mm id=9 seq=7 dims=[[512,512],[512,512]] types=[float,float]
op autograd {2}us 700us autograd::engine::evaluate_function: MmBackward0 id=8 seq=7
op autograd {2}us 690us aten::mm id=7 dims=[[512,512],[512,512]] types=[float,float]
call autograd {3}us 2us cudaLaunchKernel corr=1 id=7
kernel 7 {4}us 10us ampere_sgemm_128x64_tn corr=1
repeat 40 every 20us
call autograd {5}us 1us cudaLaunchKernel corr=2 id=7
kernel 20 {6}us 10us ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*) corr=2
end
repeat 40 every 20us
call autograd {5}us 1us cudaLaunchKernel corr=3 id=7
kernel 7 {7}us 10us ampere_sgemm_128x64_tn corr=3
end
)",
                         1000 * step, step, 1000 * step + 6, 1000 * step + 8, 1000 * step + 12,
                         1000 * step + 15, 1000 * step + 30, 1000 * step + 40);
  }
  EXPECT_THAT(fix_of(trace),
              HasSubstr("all-reduces per step, half of them below 10.0 µs, are one for each"));
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

}  // namespace
}  // namespace rooftile
