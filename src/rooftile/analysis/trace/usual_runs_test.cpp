#include "rooftile/analysis/trace/usual_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary summary_of_runs(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double us_of(Seconds time) { return to_microseconds(time); }

std::string all_reduce(int start_us, int length_us, int elements) {
  return fmt::format(
      "kernel 20 {}us {}us ncclDevKernel_AllReduce_Sum_f32_RING_LL(all) collective=allreduce "
      "dtype=Float in={} out={} group=0 ranks=8\n",
      start_us, length_us, elements, elements);
}

// Ten products at one shape, of these lengths.
std::string products(const std::vector<int>& lengths_us) {
  std::string text;
  int at = 0;
  for (std::size_t i = 0; i < lengths_us.size(); ++i) {
    text += fmt::format(
        "op main {0}us 8us aten::mm id={1} dims=[[512,512],[512,512]] types=[float,float]\n"
        "call main {2}us 4us cudaLaunchKernel corr={1} id={1}\n"
        "kernel 7 {3}us {4}us ampere_sgemm_128x64_nn corr={1} grid=32 block=128\n",
        at, i + 1, at + 2, at + 10, lengths_us[i]);
    at += lengths_us[i] + 12;
  }
  return text;
}

TEST(UsualRuns, BeyondTheFastestARankWaits) {
  const TraceSummary summary =
      summary_of_runs(all_reduce(0, 400, 1'000'000) + all_reduce(1000, 420, 1'000'000) +
                      all_reduce(2000, 2400, 1'000'000));
  EXPECT_NEAR(us_of(summary.time.rank_waiting), 2'020, 1e-3);
  ASSERT_EQ(summary.collectives.size(), 1U);
  EXPECT_NEAR(us_of(summary.collectives[0].waiting), 2'020, 1e-3);
  EXPECT_EQ(summary.collectives[0].back_to_back, 2);
}

// A run that moves more shows how long a smaller one takes at most; and a small one takes no longer
// than over a slow link.
TEST(UsualRuns, ALargerMessageBoundsASmallerOne) {
  EXPECT_NEAR(us_of(summary_of_runs(all_reduce(0, 300, 1'000'000) + all_reduce(1000, 900, 500'000))
                        .time.rank_waiting),
              600, 1e-3);
  EXPECT_NEAR(us_of(summary_of_runs(all_reduce(0, 900, 32)).time.rank_waiting), 799.872, 1e-3);
}

// Behind computation only the end of a collective shows, in which it moves its data.
// 4 MB over 45 GB/s, a tenth of the H100's NVLink, and 40 us; cards have none.
TEST(UsualRuns, WithinAMachineALinkBoundsWhatATransferTakes) {
  const auto waiting = [](const std::string& name, int devices) {
    std::string text;
    for (int id = 0; id < devices; ++id) {
      text += fmt::format("device {} {} sms=132 cc=9.0\n", id, name);
    }
    return us_of(summary_of_runs(text + all_reduce(0, 2000, 1'000'000)).time.rank_waiting);
  };
  EXPECT_NEAR(waiting("NVIDIA-H100-80GB-HBM3", 8), 2'000 - 40 - 4e6 / 45e3, 1);
  EXPECT_NEAR(waiting("NVIDIA-H100-80GB-HBM3", 4), 0, 1e-3);
  EXPECT_NEAR(waiting("NVIDIA-H100-PCIe", 8), 0, 1e-3);
}

// Without sizes one of many takes a hundred times as long: it waits, unless what works on its data
// takes as much longer.
TEST(UsualRuns, OneLongRunOfUnknownSizeMayMoveMore) {
  const auto waiting = [](int copied_us, int usual_us = 90) {
    std::string text;
    for (int i = 0; i < 8; ++i) {
      const int length = i == 7 ? 400'000 : 3'000;
      text += fmt::format(
          "kernel 20 {}us {}us ncclDevKernel_AllGather_RING_LL(all)\n"
          "kernel 7 {}us {}us CatArrayBatchedCopy\n",
          i * 5'000, length, i * 5'000 + length, i == 7 ? copied_us : usual_us);
    }
    return us_of(summary_of_runs(text).time.rank_waiting);
  };
  EXPECT_NEAR(waiting(90), 397'000, 1e-3);
  EXPECT_NEAR(waiting(9'000), 0, 1e-3);
  EXPECT_NEAR(waiting(9'000, 0), 397'000, 1e-3);
}

TEST(UsualRuns, WaitingBesideComputationCostsNothing) {
  const TraceSummary summary = summary_of_runs(all_reduce(0, 400, 1'000'000) +
                                               "kernel 7 1000us 2200us ampere_sgemm_128x64_nn\n" +
                                               all_reduce(1000, 2400, 1'000'000));
  EXPECT_NEAR(us_of(summary.time.rank_waiting), 0, 1e-3);
  EXPECT_NEAR(us_of(summary.time.exposed_communication), 600, 1e-3);
}

// Nothing is launched beside the collective, because the host allocates memory meanwhile.
TEST(UsualRuns, WhatAnAllocationKeepsFromRunningIsItsOwn) {
  const TraceSummary summary = summary_of_runs(R"(
op main 0us 11ms aten::add id=1
call main 10us 4us cudaLaunchKernel corr=1 id=1
kernel 7 20us 500us ampere_sgemm_128x64_tn corr=1
call main 16us 4us cudaLaunchKernel corr=2
kernel 20 520us 9ms ncclDevKernel_SendRecv(all) corr=2
call main 1000us 8ms cudaMalloc id=1
call main 9600us 4us cudaLaunchKernel corr=3 id=1
kernel 7 9610us 500us ampere_sgemm_128x64_tn corr=3
)");
  EXPECT_NEAR(us_of(summary.time.communication_beside_allocation), 8'000, 1e-3);
  EXPECT_NEAR(us_of(summary.time.rank_waiting), 0, 1e-3);
  EXPECT_GE(us_of(summary.allocator.exposed), 8'000 - 1e-3);
}

TEST(UsualRuns, AKernelThatIsHeldUpCostsWhatOthersDo) {
  const TraceSummary summary = summary_of_runs(products({10, 10, 11, 2400, 10, 10}));
  EXPECT_NEAR(us_of(summary.time.stretched), 2'390, 1e-3);
  EXPECT_EQ(summary.stretched.count, 1);
  EXPECT_NEAR(us_of(summary.stretched.longest), 2'400, 1e-3);
  EXPECT_NEAR(us_of(summary.stretched.usual), 10, 1e-3);
  ASSERT_EQ(summary.ops.size(), 1U);
  EXPECT_NEAR(us_of(summary.ops[0].kernel_time), 61, 1e-3);
  EXPECT_NEAR(us_of(summary.kernel_time), 2'451, 1e-3);  // of the recording
}

// Two that take the same time may do other work than the rest; so may what takes a little longer.
TEST(UsualRuns, LongerWorkIsNotHeldUp) {
  EXPECT_EQ(summary_of_runs(products({10, 10, 10, 900, 905, 10, 10, 10, 10})).stretched.count, 0);
  EXPECT_EQ(summary_of_runs(products({10, 10, 10, 40, 10, 10})).stretched.count, 0);
}

// Without shapes the work of a kernel is not known: the inner size of a product is in no launch.
TEST(UsualRuns, WithoutShapesNothingIsCompared) {
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += fmt::format("kernel 7 {}us {}us ampere_sgemm_128x64_nn grid=32 block=128\n", 3000 * i,
                        i == 3 ? 2400 : 10);
  }
  EXPECT_EQ(summary_of_runs(text).stretched.count, 0);
}

// Each layer sends about as many tokens to the experts: what a run takes beyond the fastest tenth
// it waits, however many do.
TEST(UsualRuns, ExchangesOfExpertsWaitBeyondTheFastestTenth) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("kernel 20 {}us {}us void deep_ep::internode_ll::combine<true, 7168>(p)\n",
                        1000 * i, i % 8 == 0 ? 100 : 700);
  }
  EXPECT_NEAR(us_of(summary_of_runs(text).time.rank_waiting), 35 * 600, 1e-3);
}

// The more this rank does before an exchange, the less it waits in it: but for the two that come
// last, the others are shorter than that only by waiting.
TEST(UsualRuns, ExchangesThatAreShorterAfterMoreWorkWait) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const int work = i % 20 == 0 ? 1'500 : 200 + 40 * (i % 20), wait = 1'700 - work;
    text += fmt::format(
        "kernel 7 {}us {}us expert_gemm grid=132 block=128\n"
        "kernel 20 {}us {}us void deep_ep::internode_ll::combine<true, 7168>(p)\n",
        2'000 * i, work, 2'000 * i + work, wait);
  }
  const TraceSummary summary = summary_of_runs(text);
  ASSERT_EQ(summary.collectives.size(), 1U);
  EXPECT_NEAR(us_of(summary.collectives[0].time - summary.collectives[0].waiting), 40 * 200, 1e-3);
}

}  // namespace
}  // namespace rooftile
