#include "rooftile/analysis/trace/usual_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// The tenth part of many runs counts as the fastest: of 21 runs the third, of 20 the second.
TEST(UsualRuns, TheFastestIsOneOfTen) {
  const auto waiting = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += all_reduce(1000 * i, std::min(200, 100 + 10 * i), 1'000'000);
    }
    return us_of(summary_of_runs(text).time.rank_waiting);
  };
  // Runs of 100, 110 … 190 us, and all others of 200.
  EXPECT_NEAR(waiting(20), (10 + 20 + 30 + 40 + 50 + 60 + 70 + 80) + 10 * 90, 1e-3);
  EXPECT_NEAR(waiting(21), (10 + 20 + 30 + 40 + 50 + 60 + 70) + 11 * 80, 1e-3);
}

TEST(UsualRuns, ALinkBoundsWithinAMachineAlone) {
  const auto waiting = [](int devices, int ranks, const std::string& more) {
    std::string text = more;
    for (int id = 0; id < devices; ++id) {
      text += fmt::format("device {} NVIDIA-H100-80GB-HBM3 sms=132 cc=9.0\n", id);
    }
    text += fmt::format(
        "kernel 20 0us 2000us ncclDevKernel_AllReduce collective=allreduce dtype=Float in=1000000 "
        "out=1000000 group=0 ranks={}\n",
        ranks);
    return us_of(summary_of_runs(text).time.rank_waiting);
  };
  constexpr double kWaiting = 2'000 - 40 - 4e6 / 45e3;
  EXPECT_NEAR(waiting(8, 8, ""), kWaiting, 1e-2);
  EXPECT_NEAR(waiting(8, 2, ""), kWaiting, 1e-2);
  EXPECT_NEAR(waiting(8, 8, "rank 0 of 8\n"), kWaiting, 1e-2);
  EXPECT_EQ(waiting(8, 8, "rank 0 of 16\n"), 0);
  EXPECT_EQ(waiting(7, 8, ""), 0);
  EXPECT_EQ(waiting(8, 1, ""), 0);
}

// Runs without sizes, half a second apart.
double waiting_in(const std::string& kernel, const std::vector<int>& lengths_us) {
  std::string text;
  for (std::size_t i = 0; i < lengths_us.size(); ++i) {
    text += fmt::format("kernel 20 {}us {}us {}\n", 500'000 * i, lengths_us[i], kernel);
  }
  return us_of(summary_of_runs(text).time.rank_waiting);
}

std::vector<int> and_usual(std::vector<int> lengths_us, std::size_t count, int usual_us) {
  lengths_us.resize(count, usual_us);
  return lengths_us;
}

// One of three, and more than ten times as long and ten milliseconds beyond the median.
TEST(UsualRuns, FewFarLongerRunsOfUnknownSizeWait) {
  const std::string nccl = "ncclDevKernel_AllGather_RING_LL(all)";
  EXPECT_NEAR(waiting_in(nccl, and_usual({30'001}, 8, 3'000)), 27'001, 1e-3);
  EXPECT_EQ(waiting_in(nccl, and_usual({30'000}, 8, 3'000)), 0);
  EXPECT_NEAR(waiting_in(nccl, and_usual({11'000}, 8, 1'000)), 10'000, 1e-3);
  EXPECT_EQ(waiting_in(nccl, and_usual({10'999}, 8, 1'000)), 0);
  EXPECT_EQ(waiting_in(nccl, and_usual({400'000}, 2, 3'000)), 0);
  EXPECT_NEAR(waiting_in(nccl, and_usual({400'000}, 3, 3'000)), 397'000, 1e-3);
  EXPECT_NEAR(waiting_in(nccl, and_usual({400'000, 400'000, 400'000}, 8, 3'000)), 3 * 397'000,
              1e-3);
  EXPECT_EQ(waiting_in(nccl, and_usual({400'000, 400'000, 400'000, 400'000}, 8, 3'000)), 0);
}

// Messages of one exchange kernel are alike: twice as long and 20 us beyond the median.
TEST(UsualRuns, LongerRunsOfOneExchangeWait) {
  const std::string exchange = "void vllm::cross_device_reduce_1stage<float, 2>(a)";
  EXPECT_EQ(waiting_in(exchange, and_usual({40}, 8, 20)), 0);
  EXPECT_NEAR(waiting_in(exchange, and_usual({41}, 8, 20)), 21, 1e-3);
  EXPECT_NEAR(waiting_in(exchange, and_usual({30}, 8, 10)), 20, 1e-3);
  EXPECT_EQ(waiting_in(exchange, and_usual({29}, 8, 10)), 0);
}

TEST(UsualRuns, WhatMovesNothingWaitsBeyondTheFastest) {
  const std::string notify = "void deep_ep::internode::notify_dispatch<8>(a)";
  EXPECT_NEAR(waiting_in(notify, {10, 30, 50}), 20 + 40, 1e-3);
}

TEST(UsualRuns, ExchangesOfExpertsAreComparedFromTwentyOn) {
  const auto waiting = [](std::size_t count, const std::string& way, int slow_us) {
    std::vector<int> lengths;
    for (std::size_t i = 0; i < count; ++i) lengths.push_back(i % 8 == 0 ? 100 : slow_us);
    return waiting_in("void deep_ep::internode_ll::" + way + "<true, 7168>(p)", lengths);
  };
  EXPECT_NEAR(waiting(20, "combine", 700), 17 * 600, 1e-3);
  EXPECT_NEAR(waiting(20, "dispatch", 700), 17 * 600, 1e-3);
  EXPECT_EQ(waiting(19, "combine", 700), 0);
  EXPECT_NEAR(waiting(40, "combine", 120), 35 * 20, 1e-3);
  EXPECT_EQ(waiting(40, "combine", 119), 0);
}

// More than five times as long as the median, and 50 us beyond; one of three, and no two alike.
TEST(UsualRuns, HeldUpKernelsTakeFarLonger) {
  const auto stretched = [](const std::vector<int>& lengths_us) {
    return us_of(summary_of_runs(products(lengths_us)).time.stretched);
  };
  EXPECT_NEAR(stretched({12, 12, 12, 62, 12}), 50, 1e-3);
  EXPECT_EQ(stretched({12, 12, 12, 61, 12}), 0);
  EXPECT_NEAR(stretched({10, 10, 10, 60, 10}), 50, 1e-3);
  EXPECT_EQ(stretched({20, 20, 20, 100, 20}), 0);
  EXPECT_NEAR(stretched({20, 20, 20, 101, 20}), 81, 1e-3);
  EXPECT_NEAR(stretched({10, 10, 900}), 890, 1e-3);
  EXPECT_EQ(stretched({10, 900}), 0);
  EXPECT_NEAR(stretched({10, 10, 10, 10, 900, 500}), 890 + 490, 1e-3);
  EXPECT_EQ(stretched({10, 10, 10, 10, 900, 500, 300}), 0);
  EXPECT_NEAR(stretched({10, 10, 10, 10, 10, 10, 900, 750}), 890 + 740, 1e-3);
  EXPECT_EQ(stretched({10, 10, 10, 10, 10, 10, 900, 751}), 0);
}

// One of five runs takes 900 us for 10.
double stretched_by(const std::string& op, const std::string& arguments,
                    const std::string& kernel) {
  std::string text;
  int at = 0;
  for (int i = 0; i < 5; ++i) {
    const int length = i == 3 ? 900 : 10;
    text += fmt::format(
        "op main {0}us 8us {5} id={1} {6}\n"
        "call main {2}us 4us cudaLaunchKernel corr={1} id={1}\n"
        "kernel 7 {3}us {4}us {7} corr={1} grid=32 block=128\n",
        at, i + 1, at + 2, at + 10, length, op, arguments, kernel);
    at += length + 12;
  }
  return us_of(summary_of_runs(text).time.stretched);
}

TEST(UsualRuns, KernelsAreComparedWhereTheirWorkIsKnown) {
  constexpr const char* kUnrolled = "void at::native::unrolled_elementwise_kernel<relu>(int)";
  constexpr const char* kVectorized =
      "void at::native::vectorized_elementwise_kernel<4, relu>(int)";
  constexpr const char* kStrided = "dims=[[512,512]] strides=[[512,1]] types=[float]";
  EXPECT_NEAR(stretched_by("aten::mm", "", kVectorized), 890, 1e-3);
  EXPECT_EQ(stretched_by("aten::mm", "", kUnrolled), 0);
  EXPECT_EQ(stretched_by("aten::mm", "dims=[[512,512]] types=[float]", kUnrolled), 0);
  EXPECT_NEAR(stretched_by("aten::mm", kStrided, kUnrolled), 890, 1e-3);
  EXPECT_EQ(stretched_by("mine::mm", kStrided, kUnrolled), 0);
  for (const char* kernel :
       {"ampere_sgemm_128x64_nn", "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void at::native::vectorized_layer_norm_kernel<float>()",
        "void cunn_SoftMaxForward<4, float>()", "void at::native::reduce_kernel<512, 1>()",
        "void nchwToNhwcKernel<float>()",
        "void at::native::elementwise_kernel<128, 2, direct_copy_kernel_cuda>()",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>()",
        "multi_tensor_apply_kernel<A, FusedAdamMathFunctor>", "void max_pool_forward_nchw<float>()",
        "distribution_elementwise_grid_stride_kernel<float, 4>"}) {
    EXPECT_NEAR(stretched_by("aten::mm", kStrided, kernel), 890, 1e-3) << kernel;
  }
  for (const char* kernel : {"void at::native::index_elementwise_kernel<128, 4>(long)", "attn_fwd",
                             "void at::native::unrolled_elementwise_kernel<group_relu>(int)",
                             "void at::native::unrolled_elementwise_kernel<MoE_relu>(int)",
                             "void at::native::unrolled_elementwise_kernel<expert_relu>(int)"}) {
    EXPECT_EQ(stretched_by("aten::mm", kStrided, kernel), 0) << kernel;
  }
}

// Without shapes at one place of three steps or more.
TEST(UsualRuns, KernelsAreComparedAtTheirPlaceInTheSteps) {
  const auto stretched = [](int steps) {
    std::string text;
    for (int i = 0; i < steps; ++i) {
      text += fmt::format("mark main {}us 3000us ProfilerStep#{}\n", 3000 * i, i);
      for (int place = 0; place < 2; ++place) {
        const int at = 3000 * i + 1400 * place, id = 1 + 2 * i + place;
        const int length = place == 1 ? 40 : i == 1 ? 900 : 10;
        text += fmt::format(
            "call main {0}us 4us cudaLaunchKernel corr={1}\n"
            "kernel 7 {2}us {3}us void at::native::unrolled_elementwise_kernel<relu>(int) "
            "corr={1} grid=32 block=128\n",
            at, id, at + 10, length);
      }
    }
    return us_of(summary_of_runs(text).time.stretched);
  };
  EXPECT_NEAR(stretched(3), 890, 1e-3);
  EXPECT_EQ(stretched(2), 0);
}

}  // namespace
}  // namespace rooftile
