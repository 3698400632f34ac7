#include "rooftile/analysis/trace/summarize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/timeline_text.h"

namespace rooftile {
namespace {

TraceSummary summary_of(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

double us(Seconds time) { return to_microseconds(time); }

// Four steps of 30 ms: 10 ms loader, a launch, 15 ms kernel, the host waits for it, 5 ms more work.
constexpr const char* kLoaderBound = R"(
repeat 4 every 30ms
mark main 0ms 30ms ProfilerStep#{i}
mark main 0ms 10ms enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
op main 10ms 1ms aten::mm dims=[[512,512],[512,512]] types=[float,float]
call main 10ms 10us cudaLaunchKernel corr=1
kernel 7 10.02ms 15ms sgemm corr=1 grid=8 block=128
call main 12ms 13.03ms cudaDeviceSynchronize
end
)";

const Prediction* find(const TraceSummary& summary, Remedy remedy) {
  const auto found =
      std::find_if(summary.predictions.begin(), summary.predictions.end(),
                   [&](const Prediction& prediction) { return prediction.remedy == remedy; });
  return found == summary.predictions.end() ? nullptr : &*found;
}

TEST(Summarize, SplitsTheTimeOfStepsThatWaitForData) {
  const TraceSummary summary = summary_of(kLoaderBound);
  EXPECT_EQ(summary.steps.source, StepSource::profiler_step);
  // Each step loads for 10 ms and computes for 15 of its 30.
  ASSERT_EQ(summary.steps.durations.size(), 4U);
  ASSERT_EQ(summary.steps.limits.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(us(summary.steps.durations[i]), 30'000, 1e-3);
    EXPECT_EQ(summary.steps.limits[i].part, StepPart::compute);
    EXPECT_NEAR(us(summary.steps.limits[i].time), 15'000, 1e-3);
  }
  EXPECT_NEAR(us(summary.time.span), 120'000, 1e-3);
  EXPECT_NEAR(us(summary.time.gpu_busy), 60'000, 1e-3);
  EXPECT_NEAR(us(summary.time.idle_by_cause.at(IdleCause::data_loading)), 40'000, 1e-3);
  ASSERT_EQ(summary.loaders.size(), 1U);
  EXPECT_TRUE(summary.loaders[0].in_process);
  EXPECT_EQ(summary.loaders[0].count, 4);
  EXPECT_NEAR(us(summary.loaders[0].exposed), 40'000, 1e-3);
  ASSERT_EQ(summary.syncs.size(), 1U);
  EXPECT_NEAR(us(summary.syncs[0].blocked), 4 * 13'030, 1e-3);
  EXPECT_EQ(summary.kernels, 4);
  EXPECT_DOUBLE_EQ(recorded_steps(summary), 4);
}

TEST(Summarize, SaysWhatLimitsEachStep) {
  // Three steps of 20 ms. First: 4 ms of loading before a kernel of 12 ms. Second: an all-reduce of
  // 12 ms, of which a kernel covers 2. Third: 13 ms of loading before a kernel of 5 ms, which ends
  // 2 ms after the host.
  const TraceSummary summary = summary_of(R"(
mark main 0ms 20ms ProfilerStep#1
mark main 20ms 20ms ProfilerStep#2
mark main 40ms 17ms ProfilerStep#3
mark main 1ms 3ms enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
mark main 40ms 13ms enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
call main 4ms 10us cudaLaunchKernel corr=1
call main 21ms 10us cudaLaunchKernel corr=2
call main 22ms 10us cudaLaunchKernel corr=3
call main 53.5ms 10us cudaLaunchKernel corr=4
kernel 7 4ms 12ms sgemm corr=1
kernel 9 22ms 12ms ncclDevKernel_AllReduce_Sum_f32_RING_LL corr=2
kernel 7 23ms 2ms sgemm corr=3
kernel 7 54ms 5ms sgemm corr=4
)");
  ASSERT_EQ(summary.steps.durations.size(), 3U);
  EXPECT_NEAR(us(summary.steps.durations[2]), 19'000, 1e-3);
  ASSERT_EQ(summary.steps.limits.size(), 3U);
  EXPECT_EQ(summary.steps.limits[0].part, StepPart::compute);
  EXPECT_NEAR(us(summary.steps.limits[0].time), 12'000, 1e-3);
  EXPECT_EQ(summary.steps.limits[1].part, StepPart::exposed_communication);
  EXPECT_NEAR(us(summary.steps.limits[1].time), 10'000, 1e-3);
  EXPECT_EQ(summary.steps.limits[2].part, StepPart::idle_data_loading);
  EXPECT_NEAR(us(summary.steps.limits[2].time), 13'000, 1e-3);
  EXPECT_TRUE(summary.steps.slow.empty());
}

TEST(Summarize, SaysWhyAStepIsSlow) {
  // Kernels of 10 ms limit every step of 12; the third waits 4 ms longer for its batch.
  const TraceSummary summary = summary_of(R"(
repeat 2 every 12ms
mark main 0ms 12ms ProfilerStep#{i}
mark main 0ms 1ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.01ms 10ms sgemm corr=1
call main 2ms 9.5ms cudaDeviceSynchronize
end
mark main 24ms 16ms ProfilerStep#2
mark main 24ms 5ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 29ms 10us cudaLaunchKernel corr=8
kernel 7 29.01ms 10ms sgemm corr=8
mark main 40ms 12ms ProfilerStep#3
mark main 40ms 1ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 41ms 10us cudaLaunchKernel corr=9
kernel 7 41.01ms 10ms sgemm corr=9
)");
  ASSERT_EQ(summary.steps.limits.size(), 4U);
  for (const StepLimit& limit : summary.steps.limits) EXPECT_EQ(limit.part, StepPart::compute);
  ASSERT_EQ(summary.steps.slow.size(), 1U);
  EXPECT_EQ(summary.steps.slow[0].step, 2);
  EXPECT_EQ(summary.steps.slow[0].part, StepPart::idle_data_loading);
  EXPECT_NEAR(us(summary.steps.slow[0].beyond), 4'000, 1e-3);
}

TEST(Summarize, PredictsWhatRemainsWithoutACause) {
  const TraceSummary summary = summary_of(kLoaderBound);
  ASSERT_TRUE(summary.replayed_span);
  EXPECT_NEAR(us(*summary.replayed_span), 120'000, 1);
  const Prediction* const loader = find(summary, Remedy::ideal_loader);
  ASSERT_NE(loader, nullptr);
  EXPECT_NEAR(us(loader->saved.low), 36'000, 1);  // 1 ms a batch remains, to hand it over
  EXPECT_NEAR(us(loader->saved.expected), 36'000, 1);
  EXPECT_NEAR(us(loader->saved.high), 40'000, 1);
  EXPECT_NEAR(us(loader->saved_per_step.expected), 9'000, 1);
  // Without the waits the host needs 10 + 2 + 4.97 ms a step, plus 5 us a call. The last launch is
  // at 3 * 16.975 + 10 ms, its kernel done 15.02 ms later: 75.945 ms remain of 120.
  const Prediction* const waits = find(summary, Remedy::no_synchronization);
  ASSERT_NE(waits, nullptr);
  EXPECT_NEAR(us(waits->saved.expected), 120'000 - 75'945, 30);
  // The host waits for every kernel: a shorter one shortens the step as much.
  EXPECT_NEAR(summary.kernel_time_share.value_or(0), 1, 1e-3);
}

// Workers go on at their own pace: of four steps only the last one ends earlier.
// torch.compile's phases, with a benchmark of kernels and a wait for it inside.
TEST(Summarize, ACompilationIsOneFirstCall) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 100ms _compile.compile_inner (dynamo_timed)
mark main 10ms 80ms create_aot_dispatcher_function (dynamo_timed)
mark main 20ms 30ms pad_mm_benchmark (dynamo_timed)
call main 1ms 10us cudaLaunchKernel corr=9
kernel 7 1.02ms 10us fill corr=9
call main 40ms 10us cudaLaunchKernel corr=1
kernel 7 40.02ms 1ms gemm corr=1
call main 40.1ms 5ms cudaDeviceSynchronize
call main 60ms 2ms cudaMalloc
op main 100ms 60us aten::mm
call main 100.01ms 10us cudaLaunchKernel corr=2
kernel 7 100.03ms 1ms gemm corr=2
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].cause, IdleCause::module_loading);
  EXPECT_EQ(summary.host_work[0].name, "_compile.compile_inner (dynamo_timed)");
  EXPECT_EQ(summary.time.idle_by_cause.count(IdleCause::host_work), 0U);
  EXPECT_EQ(summary.time.idle_by_cause.count(IdleCause::synchronization), 0U);
  EXPECT_EQ(summary.time.idle_by_cause.count(IdleCause::allocator), 0U);
  EXPECT_GT(us(summary.time.idle_by_cause.at(IdleCause::module_loading)), 97'900);
}

TEST(Summarize, FramesOfACompilerAreOneFirstCall) {
  const auto cause_in = [](const std::string& frame) {
    const TraceSummary summary = summary_of(fmt::format(R"(
call main 0ms 10us cudaLaunchKernel corr=1
kernel 7 0.02ms 10us fill corr=1
python main 1ms 50ms train.py(9): main
python main 1ms 49ms {}
python main 2ms 47ms torch/_inductor/scheduler.py(80): fuse
call main 50.5ms 10us cudaLaunchKernel corr=2
kernel 7 50.52ms 1ms gemm corr=2
)",
                                                        frame));
    return summary.host_work.at(0).cause;
  };
  EXPECT_EQ(cause_in("torch/_dynamo/convert_frame.py(100): __call__"), IdleCause::module_loading);
  EXPECT_EQ(cause_in("torch/_inductor/compile_fx.py(70): compile_fx_inner"),
            IdleCause::module_loading);
  EXPECT_EQ(cause_in("torch/_inductor/compile_fx.py(99): run"), IdleCause::host_work);
  EXPECT_EQ(cause_in("triton/compiler/compiler.py(226): compile"), IdleCause::module_loading);
  // What each launch goes through.
  EXPECT_EQ(cause_in("triton/backends/nvidia/driver.py(443): __call__"), IdleCause::host_work);
  EXPECT_EQ(cause_in("triton/compiler/compiler.py(398): launch_metadata"), IdleCause::host_work);
}

// Without operators: what leads to the first launch of a kernel, in a recording that shows a module
// being loaded.
TEST(Summarize, WithoutOperatorsFirstLaunchesAreFirstCalls) {
  std::vector<std::string> names;
  const auto causes = [&](std::string_view first_launch, std::string_view kernel) {
    const TraceSummary summary = summary_of(fmt::format(R"(
call main 0ms {0} cudaLaunchKernel corr=1
kernel 7 10ms 1ms fill corr=1
call main 40ms 1ms cudaMalloc
call main 60ms 10us cudaLaunchKernel corr=2
kernel 7 60.02ms 1ms {1} corr=2
call main 70ms 10us cudaLaunchKernel corr=3
kernel 7 70.02ms 1ms {1} corr=3
)",
                                                        first_launch, kernel));
    names.clear();
    for (const HostWorkUse& use : summary.host_work) names.push_back(use.name);
    return summary.time.idle_by_cause;
  };
  constexpr std::string_view kOfLibrary = "ampere_sgemm_128x64_nn";
  const auto cold = causes("9ms", kOfLibrary);
  EXPECT_NEAR(us(cold.at(IdleCause::module_loading)), 9'000 + 49'000, 100);
  EXPECT_THAT(names, testing::Contains("before the first ampere_sgemm_128x64_nn"));
  EXPECT_NEAR(us(cold.at(IdleCause::host_work)), 8'980, 50);
  EXPECT_EQ(cold.count(IdleCause::allocator), 0U);
  const auto warm = causes("9us", kOfLibrary);
  EXPECT_EQ(warm.count(IdleCause::module_loading), 0U);
  // The program's own kernel is loaded in its launch call; before it the program computes.
  const auto own = causes("9ms", "my_kernel");
  EXPECT_NEAR(us(own.at(IdleCause::module_loading)), 9'000, 100);
  EXPECT_NEAR(us(own.at(IdleCause::host_work)), 8'980 + 48'000, 100);
}

// It copies the input just before.
TEST(Summarize, ACopyMayStandBeforeTheFirstLaunch) {
  const TraceSummary summary = summary_of(R"(
call main 0ms 9ms cudaLaunchKernel corr=1
kernel 7 10ms 1ms fill corr=1
call main 59ms 5us cudaMemcpyAsync corr=2
copy 7 59.02ms 5us HtoD bytes=4096 corr=2
call main 60ms 10us cudaLaunchKernel corr=3
kernel 7 60.02ms 1ms ampere_sgemm_128x64_nn corr=3
call main 70ms 10us cudaLaunchKernel corr=4
kernel 7 70.02ms 1ms ampere_sgemm_128x64_nn corr=4
)");
  EXPECT_NEAR(us(summary.time.idle_by_cause.at(IdleCause::module_loading)), 9'000 + 48'000, 100);
}

// The host takes as long before each launch of the kernel: the first is nothing special.
TEST(Summarize, WhatComesBackBeforeEachLaunchIsNoFirstCall) {
  const auto causes = summary_of(R"(
call main 0ms 9ms cudaLaunchKernel corr=1
kernel 7 10ms 1ms fill corr=1
repeat 4 every 5ms
call main 15ms 10us cudaLaunchKernel corr=2
kernel 7 15.02ms 1ms ampere_sgemm_128x64_nn corr=2
end
)")
                          .time.idle_by_cause;
  EXPECT_NEAR(us(causes.at(IdleCause::module_loading)), 9'000, 100);
  EXPECT_NEAR(us(causes.at(IdleCause::host_work)), 4'000 + 3 * 4'000, 1'100);
}

TEST(Summarize, OverheadIsTheProfilersUnlessItLoads) {
  const auto cause_of = [](const std::string& overhead) {
    const TraceSummary summary = summary_of(fmt::format(R"(
call main 0ms 10us cudaLaunchKernel corr=1
kernel 7 0.02ms 1ms gemm corr=1
overhead 2ms 4ms {}
call main 2.5ms 10us cudaStreamIsCapturing
call main 6ms 10us cudaLaunchKernel corr=2
kernel 7 6.02ms 1ms gemm corr=2
)",
                                                        overhead));
    for (const auto& [cause, time] : summary.time.idle_by_cause) {
      if (us(time) > 3'900) return cause;
    }
    return IdleCause::unknown;
  };
  EXPECT_EQ(cause_of("Activity Buffer Request"), IdleCause::profiler);
  EXPECT_EQ(cause_of("Lazy Function Loading"), IdleCause::module_loading);
  EXPECT_EQ(cause_of("Command Buffer Full"), IdleCause::host_work);
}

// A loop over parameters: each all-reduce is launched when the one before is done.
TEST(Summarize, IdleTimeBetweenCollectives) {
  const TraceSummary summary = summary_of(R"(
call main 0ms 10us cudaLaunchKernel corr=7
kernel 7 0.02ms 1ms gemm corr=7
repeat 5 every 1ms
call main 2ms 10us cudaLaunchKernel corr=1
kernel 9 2.02ms 100us ncclDevKernel_AllReduce_Sum_f32_RING_LL corr=1
call main 2.2ms 10us cudaLaunchKernel corr=2
kernel 7 2.22ms 10us direct_copy_kernel corr=2
end
call main 8ms 10us cudaLaunchKernel corr=8
kernel 7 8.02ms 1ms gemm corr=8
)");
  EXPECT_NEAR(us(summary.between_collectives), 4 * 890, 1);
}

// The GPU ends each step's work 5 ms after the host.
TEST(Summarize, TheFirstStepBeginsAsTheOthersDo) {
  const TraceSummary summary = summary_of(R"(
repeat 4 every 10ms
mark main 0ms 10ms ProfilerStep#{i}
op main 1ms 50us aten::mm
call main 9ms 10us cudaLaunchKernel corr=1
kernel 7 9.02ms 6ms gemm corr=1
end
)");
  ASSERT_EQ(summary.steps.durations.size(), 4U);
  for (const Seconds step : summary.steps.durations) EXPECT_NEAR(us(step), 10'000, 1e-3);
}

// The last step computes as long as the others but waits for its peer where those wait for
// launches.
TEST(Summarize, AStepIsLimitedByWhatGrew) {
  const auto step = [](int at, int idle, int reduce) {
    return fmt::format(
        "mark main {0}ms 20ms ProfilerStep#{0}\n"
        "call main {0}ms 10us cudaLaunchKernel corr={0}1\n"
        "kernel 7 {0}.02ms 8ms gemm corr={0}1\n"
        "call main {1}ms 10us cudaLaunchKernel corr={0}2\n"
        "kernel 7 {1}.02ms {2}ms ncclDevKernel_AllReduce_Sum_f32_RING_LL corr={0}2\n",
        at, at + 8 + idle, reduce);
  };
  const TraceSummary summary =
      summary_of(step(100, 10, 1) + step(120, 10, 1) + step(140, 10, 1) + step(160, 4, 7));
  ASSERT_EQ(summary.steps.limits.size(), 4U);
  EXPECT_NE(summary.steps.limits[0].part, StepPart::compute);
  EXPECT_EQ(summary.steps.limits[3].part, StepPart::exposed_communication);
}

TEST(Summarize, KernelsSaveNothingWhileBatchesAreLate) {
  std::string text = kLoaderBound;
  const std::string_view own = "_SingleProcessDataLoaderIter";
  text.replace(text.find(own), own.size(), "_MultiProcessingDataLoaderIter");
  const TraceSummary summary = summary_of(text);
  // Nor those of the last step: a longer recording would wait for its next batch.
  EXPECT_NEAR(summary.kernel_time_share.value_or(1), 0, 0.01);
  const Prediction* const loader = find(summary, Remedy::ideal_loader);
  ASSERT_NE(loader, nullptr);
  EXPECT_NEAR(us(loader->saved.expected), 36'000, 1);
}

// Three batches that were ready, then one each 40 ms: the wait for the first of those is 20 ms.
TEST(Summarize, LateBatchesTellHowOftenOneComes) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 20ms
mark main 0ms 20ms ProfilerStep#{i}
mark main 0ms 100us enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 0.2ms 10us cudaLaunchKernel corr=1
kernel 7 0.3ms 15ms gemm corr=1
end
repeat 6 every 40ms
mark main 60ms 40ms ProfilerStep#{i}
mark main 60ms 20ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 80.2ms 10us cudaLaunchKernel corr=2
kernel 7 80.3ms 15ms gemm corr=2
end
)");
  ASSERT_EQ(summary.loaders.size(), 1U);
  EXPECT_NEAR(us(summary.loaders[0].interval), 40'000, 1);
}

TEST(Summarize, AGpuBoundLoopGainsNothingFromALoader) {
  // The host runs ahead: kernels of 9.9 ms back to back, the loader hidden behind them.
  const TraceSummary summary = summary_of(R"(
call main 0ms 10us cudaLaunchKernel corr=9999
kernel 7 0.02ms 30ms first corr=9999
repeat 4 every 10ms
mark main 1ms 10ms ProfilerStep#{i}
mark main 1ms 5ms enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
call main 7ms 10us cudaLaunchKernel corr=1
kernel 7 30.03ms 9.99ms sgemm corr=1
end
)");
  const Prediction* const loader = find(summary, Remedy::ideal_loader);
  ASSERT_NE(loader, nullptr);
  EXPECT_NEAR(us(loader->saved.expected), 0, 1);
  EXPECT_NEAR(us(loader->saved.low), 0, 1);
  EXPECT_FALSE(summary.time.idle_by_cause.contains(IdleCause::data_loading));
  EXPECT_NEAR(summary.kernel_time_share.value_or(0), 1, 0.02);
}

// Of the one kernel that was queued behind another it is not known what it waited for.
TEST(Summarize, OneLongPauseIsNotWhatTheGpuTakes) {
  const TraceSummary summary = summary_of(R"(
repeat 20 every 120us
call main 0us 4us cudaLaunchKernel corr=1
kernel 7 8us 100us a corr=1
call main 5us 110us cudaDeviceSynchronize
end
call main 2400us 4us cudaLaunchKernel corr=90000001
kernel 7 2408us 100us a corr=90000001
call main 2405us 4us cudaLaunchKernel corr=90000002
kernel 7 2523us 100us a corr=90000002
call main 2410us 220us cudaDeviceSynchronize
)");
  const Prediction* const waits = find(summary, Remedy::no_synchronization);
  ASSERT_NE(waits, nullptr);
  EXPECT_NEAR(us(waits->saved.expected), 20 * 18, 40);
}

// The host is some hundred launches ahead; each further one takes until a kernel has made room. It
// would come too late for kernels of nine tenths of the time, but for a queue that is full.
TEST(Summarize, AFullQueueIsNotTheHostsPace) {
  const auto share = [](int queued) {
    constexpr int kKernels = 8000, kKernelTime = 100;
    std::string text;
    int host = 0;
    for (int i = 0; i < kKernels; ++i) {
      const int room = i < queued ? 0 : kKernelTime * (i - queued);
      const int returned = std::max(host + 5, room);
      text += fmt::format(
          "call main {0}us {1}us cudaLaunchKernel corr={2}\nkernel 7 {3}us {4}us a corr={2}\n",
          host, returned - host, i + 1, 10 + kKernelTime * i, kKernelTime);
      host = returned + 1;
    }
    text += fmt::format("call main {}us {}us cudaDeviceSynchronize\n", host,
                        10 + kKernelTime * kKernels - host);
    return summary_of(text).kernel_time_share.value_or(0);
  };
  EXPECT_NEAR(share(511), 1, 1e-6);
  EXPECT_LT(share(510), 0.7);
}

TEST(Summarize, ListsAKernelUnderTheOperatorThatDescribesIt) {
  const TraceSummary summary = summary_of(R"(
op main 0us 90us aten::linear id=1 dims=[[64,256],[128,256],[128]] types=[float,float,float]
op main 5us 80us aten::addmm id=2 seq=4 dims=[[128],[64,256],[256,128],[],[]] types=[float,float,float,Scalar,Scalar] strides=[[1],[256,1],[1,256],[],[]]
call main 20us 5us cudaLaunchKernel corr=1 id=2
kernel 7 30us 10us sgemm_a corr=1
op autograd 100us 60us autograd::engine::evaluate_function: AddmmBackward0 id=3 seq=4
op autograd 101us 50us AddmmBackward0 id=4 seq=4
op autograd 110us 40us aten::mm id=5 dims=[[128,64],[64,256]] types=[float,float] strides=[[1,128],[256,1]]
call autograd 115us 5us cudaLaunchKernel corr=2 id=5
kernel 7 120us 20us sgemm_b corr=2
op main 200us 50us aten::to id=6
op main 201us 40us aten::copy_ id=7
call main 210us 5us cudaLaunchKernel corr=3 id=3000
kernel 7 220us 5us elementwise corr=3
kernel 7 230us 5us lost corr=77
python main 0us 95us train.py(10): forward
)");
  ASSERT_EQ(summary.ops.size(), 3U);
  EXPECT_EQ(summary.ops[0].name, "aten::mm");
  EXPECT_EQ(summary.ops[0].site.source.line, 10);  // of the forward operator
  ASSERT_TRUE(summary.ops[0].op);
  EXPECT_EQ(summary.ops[0].op->phase, Phase::wgrad);
  EXPECT_EQ(summary.ops[0].phase, Phase::wgrad);
  const auto* const layer = std::get_if<Gemm>(&summary.ops[0].op->body);
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->m, 64);
  EXPECT_EQ(layer->n, 128);
  EXPECT_EQ(layer->k, 256);
  EXPECT_EQ(summary.ops[1].name, "aten::addmm");
  EXPECT_NEAR(us(summary.ops[1].host_time), 80, 1e-6);
  EXPECT_EQ(summary.ops[2].name, "aten::to");
  ASSERT_EQ(summary.orphans.size(), 1U);
  EXPECT_EQ(summary.orphans[0].name, "lost");
}

// 100 launches of one name, then 100 names: 64 launches, 64 names and the rest.
TEST(Summarize, KernelsBeyondTheListKeepTheirNames) {
  std::string text = "op main 0us 1ms aten::mm\n";
  auto add = [&, at = 0](const std::string& name, int grid) mutable {
    ++at;
    text += "call main " + std::to_string(at) +
            "us 1us cudaLaunchKernel corr=" + std::to_string(at) + "\nkernel 7 " +
            std::to_string(2 * at) + "us 1us " + name + " corr=" + std::to_string(at) +
            " grid=" + std::to_string(grid) + "\n";
  };
  for (int i = 1; i <= 100; ++i) add("sgemm", i);
  for (int i = 1; i <= 100; ++i) add("other_" + std::to_string(i), 1);
  const TraceSummary summary = summary_of(text.c_str());
  ASSERT_EQ(summary.ops.size(), 1U);
  std::map<std::string, std::int64_t> counts;
  for (const KernelUse& kernel : summary.ops[0].kernels) counts[kernel.name] += kernel.count;
  EXPECT_EQ(counts["sgemm"], 100);
  EXPECT_EQ(counts["other_63"], 1);
  EXPECT_EQ(counts.count("other_64"), 0U);
  EXPECT_EQ(counts[std::string(kOtherKernels)], 37);
  EXPECT_EQ(summary.ops[0].kernels.size(), 129U);
  EXPECT_EQ(summary.ops[0].kernels[0].count, 37);  // of the longest time: the rest
  EXPECT_EQ(summary.ops[0].kernels[1].count, 36);  // then sgemm with any launch
  EXPECT_EQ(summary.ops[0].kernels[1].launch.grid[0], 0U);
}

TEST(Summarize, KernelsOfAGraphAndNoHostAtAll) {
  const TraceSummary graph = summary_of(R"(
call main 0us 10us cudaGraphLaunch corr=5
kernel 7 12us 10us a corr=5
kernel 7 23us 10us b corr=5
kernel 8 25us 20us c corr=5
)");
  EXPECT_EQ(graph.kernels, 3);
  EXPECT_EQ(graph.graph_launches, 1);
  EXPECT_EQ(graph.orphans.size(), 3U);
  EXPECT_NEAR(us(graph.whole.gpu_busy), 32, 1e-6);
  const TraceSummary bare = summary_of("kernel 7 5us 10us a\nkernel 7 20us 10us b\n");
  EXPECT_NEAR(us(bare.whole.span), 25, 1e-6);
  EXPECT_NEAR(us(bare.whole.idle_by_cause.at(IdleCause::unknown)), 5, 1e-6);
  EXPECT_TRUE(bare.predictions.empty());
}

TEST(Summarize, EmptyAndHostOnlyRecordings) {
  EXPECT_EQ(summary_of("").kernels, 0);
  const TraceSummary host = summary_of(
      "op main 0us 9us aten::linear dims=[[64,256],[128,256]] types=[float,float]\n"
      "op main 1us 5us aten::addmm dims=[[128],[64,256],[256,128]] types=[float,float,float]\n");
  ASSERT_EQ(host.ops.size(), 1U);
  EXPECT_EQ(host.ops[0].count, 1);
  EXPECT_FALSE(host.ops[0].op->measured);
}

TEST(Summarize, CollectivesAndCopies) {
  const TraceSummary summary = summary_of(R"(
op main 0us 100us aten::copy_
call main 0us 30us cudaMemcpyAsync corr=1
copy 7 5us 20us HtoD pageable bytes=4096 corr=1
kernel 7 40us 20us gemm corr=2
kernel 20 50us 30us ncclDevKernel_AllReduce_Sum_f32_RING_LL() corr=3 collective=allreduce dtype=Float in=1001 ranks=8
memory 10us 64 device=0 allocated=640 reserved=1000
memory 20us -64 device=0 allocated=576 reserved=1000
)");
  ASSERT_EQ(summary.collectives.size(), 1U);
  EXPECT_NEAR(us(summary.collectives[0].exposed), 20, 1e-6);
  EXPECT_EQ(summary.collectives[0].misaligned, 1);  // 4004 bytes
  ASSERT_EQ(summary.copies.size(), 1U);
  EXPECT_EQ(summary.copies[0].shape.bytes, 4096U);
  EXPECT_NEAR(us(summary.copies[0].blocked), 30, 1e-6);
  EXPECT_DOUBLE_EQ(summary.allocator.peak_allocated->value(), 640);
}

// Two passes: three reductions, the first late, and three that begin early; then the optimizer,
// and a pass with a single reduction, which counts for nothing.
TEST(Summarize, GradientReductionsBesideTheBackwardPass) {
  const std::string backward = "op grad 0us 900us autograd::engine::evaluate_function: X id=1\n";
  const auto pass = [&](int at, std::vector<int> starts) {
    std::string text;
    for (int i = 0; i < 10; ++i) {
      text += "kernel 7 " + std::to_string(at + 10 * i) + "us 10us gemm id=1\n";
    }
    for (const int start : starts) {
      text += "kernel 20 " + std::to_string(at + start) + "us 15us ncclDevKernel_AllReduce id=1\n";
    }
    return text + "kernel 7 " + std::to_string(at + 150) + "us 10us adam id=2\n";
  };
  const TraceSummary summary = summary_of(
      (backward + pass(0, {80, 95, 110}) + pass(200, {20, 50, 90}) + pass(400, {95})).c_str());
  const GradientReductions& gradients = summary.gradients;
  EXPECT_EQ(gradients.passes, 2);
  EXPECT_EQ(gradients.reductions, 6);
  EXPECT_NEAR(us(gradients.backward), 200, 1e-6);
  EXPECT_NEAR(us(gradients.before_first), 80 + 20, 1e-6);
  EXPECT_NEAR(us(gradients.after), 25 + 5, 1e-6);
}

// Steps of 12 ms after one of 60, which compiles for 48 ms; the last one's host stays 28 ms longer.
TEST(Summarize, AWarmUpAndTheProfilersEndAreSetApart) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 60ms ProfilerStep#0
call main 0ms 49ms cuModuleLoadData
call main 49ms 10us cudaLaunchKernel corr=90
kernel 7 49.01ms 10.99ms sgemm corr=90
repeat 4 every 12ms
mark main 60ms 12ms ProfilerStep#{i}
call main 61ms 10us cudaLaunchKernel corr=1
kernel 7 61.01ms 10.99ms sgemm corr=1
end
mark main 108ms 40ms ProfilerStep#9
call main 109ms 10us cudaLaunchKernel corr=91
kernel 7 109.01ms 10.99ms sgemm corr=91
)");
  ASSERT_EQ(summary.steps.durations.size(), 4U);
  EXPECT_NEAR(us(pass_time(summary)), 12'000, 1e-3);
  ASSERT_TRUE(summary.steps.first_apart);
  EXPECT_NEAR(us(summary.steps.first_apart->duration), 60'000, 1e-3);
  EXPECT_EQ(summary.steps.first_apart->part, StepPart::idle_module_loading);
  EXPECT_NEAR(us(summary.steps.first_apart->beyond), 49'000, 1e-3);
  ASSERT_TRUE(summary.steps.last_apart);
  EXPECT_NEAR(us(summary.steps.last_apart->duration), 40'000, 1e-3);
  EXPECT_EQ(summary.steps.last_apart->part, StepPart::idle_outside);
  // One kernel a step, although two more ran.
  EXPECT_NEAR(recorded_steps(summary), 6, 1e-9);
  EXPECT_TRUE(summary.steps.slow.empty());
}

// 100 kernels of 1 ms were queued when the trace began; the step launches 10 of 2 ms.
// Two steps of 10 ms; a third begins as the recording ends.
TEST(Summarize, AStepThatIsCutIsSetApart) {
  const TraceSummary summary = summary_of(R"(
repeat 2 every 10ms
mark main 0us 10ms ProfilerStep#{i}
op main 0us 20us aten::mm id=1
call main 5us 4us cudaLaunchKernel corr=1 id=1
kernel 7 20us 5ms a corr=1
call main 30us 4us cudaLaunchKernel corr=2
kernel 7 5020us 4980us b corr=2
end
mark main 20ms 400us ProfilerStep#2
)");
  ASSERT_EQ(summary.steps.durations.size(), 2U);
  EXPECT_NEAR(us(median(summary.steps.durations)), 10'000, 1e-3);
  ASSERT_TRUE(summary.steps.last_apart);
  EXPECT_TRUE(summary.steps.last_apart->is_cut);
  EXPECT_NEAR(us(summary.steps.last_apart->duration), 400, 1e-3);
}

// cuBLAS allocates its workspace in its first call; the second step allocates nothing.
TEST(Summarize, WhatALibraryAllocatesAtFirstIsNoChurn) {
  const std::string step = R"(
op main 20ms 300us aten::mm id=9
call main 20.1ms 100us cudaMalloc
call main 20.25ms 5us cudaLaunchKernel corr=9 id=9
kernel 7 20.26ms 10us a corr=9
)";
  const TraceSummary first = summary_of(R"(
op main 0us 4ms aten::mm id=1
call main 100us 3ms cudaMalloc
call main 3150us 5us cudaLaunchKernel corr=1 id=1
kernel 7 3160us 10us a corr=1
)");
  EXPECT_EQ(first.allocator.mallocs, 0);
  EXPECT_NEAR(us(first.time.idle_by_cause.at(IdleCause::module_loading)), 3000, 1e-3);
  const TraceSummary later = summary_of("op main 0us 1ms aten::mm id=7\n" + step);
  EXPECT_EQ(later.allocator.mallocs, 1);
}

// The host compiles for 20 ms and loads what comes of it.
TEST(Summarize, WorkThatEndsAsAModuleIsLoadedIsCompiling) {
  const auto causes = [](const std::string& frames) {
    return summary_of("mark main 0us 31ms ProfilerStep#1\n" + frames + R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 20ms 500us cuModuleLoadData
call main 20.6ms 5us cudaLaunchKernel corr=2
kernel 7 20.61ms 10ms b corr=2
)")
        .time.idle_by_cause;
  };
  EXPECT_GT(us(causes("python main 5us 30ms train.py(3): step\n").at(IdleCause::module_loading)),
            19'000);
  // What ends before is another matter.
  EXPECT_GT(us(causes("python main 5us 19.9ms train.py(9): read\n").at(IdleCause::host_work)),
            19'000);
}

// The kernels of an optimizer queue behind the backward pass; the host is late for what follows.
TEST(Summarize, PredictsWhatAFusedOptimizerSaves) {
  const TraceSummary summary = summary_of(R"(
repeat 200 every 90us
op main 0us 20us aten::mm id=1
call main 5us 4us cudaLaunchKernel corr=1 id=1
end
repeat 200 every 100us
kernel 7 10us 99us ampere_sgemm_128x64_tn corr=1
end
mark main 18800us 1210us Optimizer.step#SGD.step
repeat 60 every 20us
op main 18800us 19us aten::add_ id=7
call main 18802us 4us cudaLaunchKernel corr=7 id=7
end
repeat 60 every 2100ns
kernel 7 20010us 2us void at::native::vectorized_elementwise_kernel<4, add>(int) corr=7
end
repeat 60 every 20us
op main 20150us 15us aten::mm id=9
call main 20152us 4us cudaLaunchKernel corr=9 id=9
kernel 7 20160us 3us ampere_sgemm_32x32_tn corr=9
end
)");
  ASSERT_EQ(summary.ranges.size(), 1U);
  EXPECT_NEAR(us(summary.ranges[0].idle), 0, 20);
  const Prediction* const fused = find(summary, Remedy::fused_optimizer);
  ASSERT_NE(fused, nullptr);
  // 17 of 20 us a launch, but for the first ones that the queue hides.
  EXPECT_NEAR(us(fused->saved.expected), 60 * 17, 150);
}

TEST(Summarize, FindsTheWeightsThatAutocastCasts) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 110us
op main 0us 60us aten::linear id=1 dims=[[8,64],[32,64],[32]] types=[c10::Half,float,c10::Half]
op main 2us 20us aten::to id=2 dims=[[32,64],[],[],[],[]] types=[float,Scalar,Scalar,Scalar,Scalar]
op main 5us 12us aten::copy_ id=4 dims=[[32,64],[32,64],[]] types=[c10::Half,float,Scalar]
call main 6us 4us cudaLaunchKernel corr=1 id=4
kernel 7 12us 60us direct_copy_kernel corr=1
op main 24us 5us aten::to id=5 dims=[[8,64],[],[],[],[]] types=[float,Scalar,Scalar,Scalar,Scalar]
call main 25us 3us cudaLaunchKernel corr=2 id=5
kernel 7 73us 10us direct_copy_kernel corr=2
end
)");
  EXPECT_EQ(summary.weight_casts.count, 3);
  EXPECT_NEAR(us(summary.weight_casts.time), 180, 1e-6);
  EXPECT_NEAR(us(summary.weight_casts.host_time), 60, 1e-6);
  EXPECT_EQ(summary.weight_casts.site.op, "aten::linear");
}

// A stream that only copies is no line that computation stands in.
TEST(Summarize, CopiesInLine) {
  const auto in_line = [](const std::string& stream) {
    const TraceSummary summary = summary_of(
        "op main 0us 20us aten::copy_ id=1\n"
        "call main 5us 4us cudaMemcpyAsync corr=1 id=1\n"
        "copy " +
        stream +
        " 10us 500us HtoD bytes=100 corr=1 id=1\n"
        "call main 25us 4us cudaLaunchKernel corr=2\n"
        "kernel 7 510us 100us gemm corr=2\n");
    return us(summary.copies.at(0).in_line);
  };
  EXPECT_NEAR(in_line("7"), 500, 1e-6);
  EXPECT_NEAR(in_line("20"), 0, 1e-6);
}

TEST(Summarize, WorkLeftFromBeforeIsInNoStepAndNoTable) {
  std::string text =
      "mark main 5ms 3ms ProfilerStep#1\nrepeat 100 every 1ms\nkernel 7 0ms 1ms "
      "old corr=700\nend\n";
  for (int i = 1; i <= 10; ++i) {
    const std::string id = std::to_string(i);
    text += "op main " + std::to_string(5000 + 100 * i) + "us 20us aten::mm\ncall main " +
            std::to_string(5005 + 100 * i) + "us 5us cudaLaunchKernel corr=" + id + "\nkernel 7 " +
            std::to_string(98 + 2 * i) + "ms 2ms sgemm corr=" + id + "\n";
  }
  const TraceSummary summary = summary_of(text.c_str());
  ASSERT_EQ(summary.steps.durations.size(), 1U);
  EXPECT_NEAR(us(summary.steps.durations[0]), 20'000, 1e-3);
  EXPECT_EQ(summary.kernels, 110);
  EXPECT_EQ(summary.leftover_kernels, 100);
  EXPECT_NEAR(us(summary.leftover_time), 100'000, 1e-3);
  EXPECT_DOUBLE_EQ(recorded_steps(summary), 1);
  EXPECT_TRUE(summary.orphans.empty());
  ASSERT_EQ(summary.ops.size(), 1U);
  EXPECT_NEAR(us(summary.ops[0].kernel_time), 20'000, 1e-3);
}

// The loader starts its workers and CUDA loads its kernels in the first of two steps.
TEST(Summarize, OfTwoStepsTheOneWithTheStartIsSetApart) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 700ms ProfilerStep#0
mark main 0ms 400ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 400ms 200ms cuModuleLoadData
call main 601ms 10us cudaLaunchKernel corr=1
kernel 7 601.02ms 90ms sgemm corr=1
mark main 700ms 100ms ProfilerStep#1
mark main 700ms 1ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 702ms 10us cudaLaunchKernel corr=2
kernel 7 702.02ms 90ms sgemm corr=2
)");
  ASSERT_EQ(summary.steps.durations.size(), 1U);
  EXPECT_LT(us(summary.steps.durations[0]), 120'000);
  ASSERT_TRUE(summary.steps.first_apart);
  EXPECT_EQ(summary.steps.first_apart->steps, 1);
  EXPECT_EQ(summary.time.idle_by_cause.count(IdleCause::module_loading), 0U);
  EXPECT_EQ(kernels_in_tables(summary), 1);
  EXPECT_DOUBLE_EQ(table_steps(summary), 1);
}

// Whatever makes it so long.
TEST(Summarize, OfThreeStepsTheFirstIsSetApartWhereItIsTwiceAsLong) {
  const auto first_apart = [](int first) {
    return summary_of(fmt::format(R"(
mark main 0ms {0}ms ProfilerStep#0
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.02ms 10ms sgemm corr=1
repeat 2 every 12ms
mark main {0}ms 12ms ProfilerStep#{{i}}
call main {1}ms 10us cudaLaunchKernel corr=2
kernel 7 {1}.02ms 10.9ms sgemm corr=2
end
)",
                                  first, first + 1))
        .steps.first_apart.has_value();
  };
  EXPECT_TRUE(first_apart(40));
  EXPECT_FALSE(first_apart(20));
}

// Behind the first step, a slow one that takes less than two of the others is one of them.
TEST(Summarize, AfterTheFirstStepOnlyTwiceAsLongOnesAreSetApart) {
  const auto steps_apart = [](int second) {
    const TraceSummary summary = summary_of(fmt::format(R"(
mark main 0ms 60ms ProfilerStep#0
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.01ms 10.9ms sgemm corr=1
mark main 60ms {0}ms ProfilerStep#1
call main 61ms 10us cudaLaunchKernel corr=2
kernel 7 61.01ms 10.9ms sgemm corr=2
repeat 5 every 12ms
mark main {1}ms 12ms ProfilerStep#{{i}}
call main {2}ms 10us cudaLaunchKernel corr=3
kernel 7 {2}.01ms 10.9ms sgemm corr=3
end
)",
                                                        second, 60 + second, 61 + second));
    return summary.steps.first_apart ? summary.steps.first_apart->steps : 0;
  };
  EXPECT_EQ(steps_apart(18), 1);
  EXPECT_EQ(steps_apart(30), 2);
}

// The GPU still has work from before in its queue, the host launches without waiting for anything.
TEST(Summarize, AFirstStepThatIsMuchShorterIsSetApart) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 30ms ProfilerStep#0
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.02ms 28.9ms sgemm corr=1
repeat 3 every 80ms
mark main 30ms 80ms ProfilerStep#{i}
call main 81ms 10us cudaLaunchKernel corr=2
kernel 7 81.02ms 28.9ms sgemm corr=2
end
)");
  EXPECT_EQ(summary.steps.durations.size(), 3U);
  ASSERT_TRUE(summary.steps.first_apart);
  EXPECT_NEAR(us(summary.steps.first_apart->duration), 30'000, 1e-3);
}

TEST(Summarize, EveryStepWithAStartIsSetApartWhileOneRemains) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 100ms ProfilerStep#0
call main 0ms 80ms cuModuleLoadData
call main 81ms 10us cudaLaunchKernel corr=1
kernel 7 81.02ms 10ms sgemm corr=1
mark main 100ms 40ms ProfilerStep#1
call main 100ms 20ms cuModuleLoadData
call main 121ms 10us cudaLaunchKernel corr=2
kernel 7 121.02ms 10ms sgemm corr=2
mark main 140ms 12ms ProfilerStep#2
call main 141ms 10us cudaLaunchKernel corr=3
kernel 7 141.02ms 10ms sgemm corr=3
)");
  ASSERT_EQ(summary.steps.durations.size(), 1U);
  ASSERT_TRUE(summary.steps.first_apart);
  EXPECT_EQ(summary.steps.first_apart->steps, 2);
  EXPECT_NEAR(us(summary.steps.first_apart->beyond), 70'000, 2'000);
}

// A phase that only evaluates follows the steps.
TEST(Summarize, TablesAreOfTheStepsAlone) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 12ms
mark main 0ms 12ms ProfilerStep#{i}
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.01ms 10ms sgemm corr=1
end
mark main 40ms 50ms evaluate
repeat 4 every 10ms
call main 41ms 10us cudaLaunchKernel corr=9
kernel 7 41.01ms 8ms forward_only corr=9
end
)");
  ASSERT_EQ(summary.steps.durations.size(), 3U);
  EXPECT_EQ(summary.kernels, 7);
  EXPECT_EQ(kernels_in_tables(summary), 3);
  EXPECT_NEAR(us(summary.kernel_time_in_steps), 30'000, 1e-3);
  EXPECT_DOUBLE_EQ(table_steps(summary), 3);
  ASSERT_EQ(summary.unjudged.size(), 1U);
  EXPECT_EQ(summary.unjudged[0].name, "evaluate");
  EXPECT_EQ(summary.unjudged[0].kernels, 4);
  EXPECT_NEAR(us(summary.unjudged[0].kernel_time), 32'000, 1e-3);
}

TEST(Summarize, TheEightLongestRangesBesideTheStepsAreNamed) {
  std::string text = R"(
repeat 3 every 12ms
mark main 0ms 12ms ProfilerStep#{i}
call main 1ms 10us cudaLaunchKernel corr=1
kernel 7 1.01ms 10ms sgemm corr=1
end
)";
  for (int phase = 1; phase <= 10; ++phase) {
    const int at = 20 + 20 * phase;
    text += fmt::format(
        "mark main {0}ms 18ms phase{1}\ncall main {0}.01ms 10us cudaLaunchKernel corr={0}\n"
        "kernel 7 {0}.03ms {1}ms sgemm corr={0}\n",
        at, phase);
  }
  const TraceSummary summary = summary_of(text);
  ASSERT_EQ(summary.unjudged.size(), 8U);
  EXPECT_EQ(summary.unjudged.front().name, "phase10");
  EXPECT_EQ(summary.unjudged.back().name, "phase3");
}

// What autograd's thread launches while a step's range lasts is that step's too.
TEST(Summarize, RangesOfStepsHoldWhatEachThreadLaunches) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 12ms
mark main 0ms 12ms ProfilerStep#{i}
op main 1ms 20us aten::mm id=1
call main 1ms 10us cudaLaunchKernel corr=1 id=1
kernel 7 1.01ms 4ms sgemm corr=1
op autograd 5ms 20us aten::mm id=2
call autograd 5ms 10us cudaLaunchKernel corr=2 id=2
kernel 7 5.02ms 6ms sgemm corr=2
end
mark main 40ms 200ms ProfilerStep#9
op main 41ms 20us aten::mm id=8
call main 41ms 10us cudaLaunchKernel corr=8 id=8
kernel 7 41.02ms 10ms sgemm corr=8
op autograd 51ms 20us aten::mm id=9
call autograd 51ms 10us cudaLaunchKernel corr=9 id=9
kernel 7 51.02ms 180ms sgemm corr=9
)");
  ASSERT_EQ(summary.steps.durations.size(), 3U);
  ASSERT_EQ(summary.unjudged.size(), 1U);
  EXPECT_EQ(summary.unjudged[0].name, "ProfilerStep#9");
  EXPECT_EQ(summary.unjudged[0].kernels, 2);
}

TEST(Summarize, CountsLaunchesAtTheEndWithoutAKernel) {
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text +=
        "mark main " + std::to_string(10 * i) + "ms 10ms ProfilerStep#" + std::to_string(i) + "\n";
    for (int kernel = 0; kernel < 20; ++kernel) {
      const std::string id = std::to_string(1 + 20 * i + kernel);
      const std::string start = std::to_string(10'000 * i + 400 * kernel);
      text += "call main " + start + "us 5us cudaLaunchKernel corr=" + id + "\n";
      if (i == 2 && kernel >= 8) continue;
      text += "kernel 7 " + start + ".5us 300us sgemm corr=" + id + "\n";
    }
  }
  const TraceSummary summary = summary_of(text);
  EXPECT_EQ(summary.kernel_launches, 60);
  EXPECT_EQ(summary.lost_launches, 12);
  ASSERT_EQ(summary.steps.durations.size(), 2U);
  ASSERT_TRUE(summary.steps.last_apart);
  EXPECT_TRUE(summary.steps.last_apart->is_cut);
}

TEST(Summarize, RangesThatSayWhatTheyCompileAreFirstCalls) {
  const TraceSummary summary = summary_of(R"(
call main 0ms 10us cudaLaunchKernel corr=9
kernel 7 0.02ms 10us fill corr=9
mark main 1ms 40ms FusionKernelRuntime::compileFusionParallel
call main 42ms 10us cudaLaunchKernel corr=1
kernel 7 42.02ms 1ms gemm corr=1
mark main 43ms 40ms Torch-Compiled Region
call main 84ms 10us cudaLaunchKernel corr=2
kernel 7 84.02ms 1ms gemm corr=2
)");
  EXPECT_NEAR(us(summary.time.idle_by_cause.at(IdleCause::module_loading)), 40'000, 1'500);
  EXPECT_NEAR(us(summary.time.idle_by_cause.at(IdleCause::host_work)), 43'000, 100);
}

TEST(Summarize, OperatorsTellWhatGathersAndForeachKernelsAre) {
  const auto class_in = [](const char* around, const char* kernel) {
    const TraceSummary summary = summary_of(fmt::format(
        "{}\ncall main 12us 4us cudaLaunchKernel corr=1\nkernel 7 20us 60us {} corr=1\n", around,
        kernel));
    return summary.ops.empty() ? summary.orphans.at(0).facts.kernel_class
                               : summary.ops.at(0).kernels.at(0).facts.kernel_class;
  };
  constexpr const char* kGather = "void at::native::vectorized_gather_kernel<16, long>(char*)";
  EXPECT_EQ(class_in("op main 10us 20us aten::index_put_", kGather), KernelClass::indexing);
  EXPECT_EQ(class_in("op main 10us 20us aten::embedding", kGather), KernelClass::embedding);
  constexpr const char* kForeach =
      "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, "
      "BinaryOpScalarFunctor<float, 2, 1, 1>, std::multiplies<float>, "
      "float>(TensorListMetadata<2>)";
  EXPECT_EQ(class_in("mark main 10us 20us optimizer_step", kForeach), KernelClass::optimizer);
  EXPECT_EQ(class_in("mark main 10us 20us clip", kForeach), KernelClass::elementwise);
  EXPECT_EQ(class_in("op main 10us 20us torchao::triton_to_mxfp8_dim0", "dim0_kernel"),
            KernelClass::quantize);
  const std::pair<KernelClass, std::vector<const char*>> operators[] = {
      {KernelClass::attention, {"mine::flash_attention", "mine::attn_gemm"}},
      {KernelClass::quantize, {"mine::Quantize_rows", "mine::fp8_quant", "mine::nvfp4_gemm"}},
      {KernelClass::gemm,
       {"mine::grouped_gemm", "mine::MatMul", "mine::linear_bias", "mine::x_mm"}},
      {KernelClass::normalization, {"mine::rms_norm"}},
      {KernelClass::unknown,
       {"mine::x_mmm", "gemm::other", "aten::my_gemm", "my_gemm", "mine::relu"}}};
  for (const auto& [kernel_class, names] : operators) {
    for (const char* name : names) {
      EXPECT_EQ(class_in(fmt::format("op main 10us 20us {}", name).c_str(), "k_17"), kernel_class)
          << name;
    }
  }
}

// The user's function, and the one of a library inside; Python's own says nothing more.
TEST(Summarize, NamesTheHostsOtherWork) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 20ms
mark main 0ms 20ms ProfilerStep#{i}
python main 0ms 15ms train.py(33): preprocess
python main 1ms 13.9ms PIL/Image.py(200): resize
python main 1ms 13.8ms <built-in method resize>
op main 15.1ms 50us aten::mm
call main 15.11ms 10us cudaLaunchKernel corr=1
kernel 7 15.13ms 4ms sgemm corr=1
end
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].cause, IdleCause::host_work);
  EXPECT_EQ(summary.host_work[0].name, "preprocess → resize");
  EXPECT_EQ(summary.host_work[0].source.file, "train.py");
  EXPECT_EQ(summary.host_work[0].source.line, 33);
  EXPECT_EQ(summary.host_work[0].count, 3);
  // Until the first launch, and twice the 16 ms between two kernels: it ran beside the kernels
  // for longer than the launches after it take.
  EXPECT_NEAR(us(summary.host_work[0].exposed), 15'110 + 2 * 16'000, 1e-3);
}

// An operator says more than the function it is called in, whose line is where to look.
TEST(Summarize, NamesOperatorsOnTheHostWithTheirLine) {
  const TraceSummary summary = summary_of(R"(
python main 0ms 15ms train.py(33): make_mask
op main 1ms 13ms aten::fill_
op main 15.1ms 50us aten::mm
call main 15.11ms 10us cudaLaunchKernel corr=1
kernel 7 15.13ms 4ms sgemm corr=1
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].name, "aten::fill_");
  EXPECT_EQ(summary.host_work[0].source.line, 33);
}

// The first copy pins for 40 ms, the others take 2 ms each.
TEST(Summarize, AFirstCopyThatTakesLongIsNoUsualOne) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 200ms ProfilerStep#0
op main 0ms 41ms aten::copy_
call main 0ms 40ms cudaMemcpyAsync corr=80
copy 7 1ms 39ms HtoD pageable bytes=1000 corr=80
call main 50ms 10us cudaLaunchKernel corr=81
kernel 7 50.01ms 149.9ms sgemm corr=81
repeat 3 every 200ms
mark main 200ms 200ms ProfilerStep#{i}
op main 200ms 3ms aten::copy_
call main 200ms 2.5ms cudaMemcpyAsync corr=1
copy 7 200.4ms 2ms HtoD pageable bytes=1000 corr=1
call main 210ms 10us cudaLaunchKernel corr=2
kernel 7 210.01ms 189.9ms sgemm corr=2
end
)");
  ASSERT_EQ(summary.copies.size(), 1U);
  EXPECT_EQ(summary.copies[0].count, 4);
  EXPECT_NEAR(us(summary.copies[0].time), 4 * 2'000, 1e-3);
  EXPECT_NEAR(us(summary.copies[0].blocked), 4 * 2'500, 1e-3);
}

TEST(Summarize, WhatWasLaunchedBeforeIsInNoTable) {
  const TraceSummary summary = summary_of(R"(
kernel 20 0us 900us ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)
op main 1000us 50us aten::mm id=1
call main 1010us 5us cudaLaunchKernel corr=1 id=1
kernel 7 1020us 500us sgemm corr=1
)");
  EXPECT_EQ(summary.leftover_kernels, 1);
  EXPECT_TRUE(summary.collectives.empty());
}

// The recording begins within a step; a loader without a name comes before the next one.
TEST(Summarize, ThePauseBehindWorkFromBeforeIsTheHosts) {
  std::string text = "repeat 20 every 1ms\nkernel 7 0ms 1ms old corr=700\nend\n";
  for (int i = 0; i < 20; ++i) {
    text += fmt::format(
        "call main {}us 5us cudaLaunchKernel corr={}\nkernel 7 {}us 90us sgemm corr={}\n",
        500'000 + 100 * i, i + 1, 500'006 + 100 * i, i + 1);
  }
  const TraceSummary summary = summary_of(text.c_str());
  EXPECT_NEAR(us(summary.time.span), 501'996 - 20'000, 1e-3);
  EXPECT_NEAR(us(summary.time.idle_by_cause.at(IdleCause::host_work)), 480'000, 100);
  EXPECT_NEAR(us(summary.before), 20'000, 1e-3);
}

// The first wait is for a kernel from before, the second is the profiler's own.
TEST(Summarize, WaitsOfTheRecorderAreNotThePrograms) {
  const TraceSummary summary = summary_of(R"(
kernel 7 0us 5ms sgemm
mark main 0us 30ms ProfilerStep#6
call main 1ms 4.1ms cudaDeviceSynchronize
op main 7ms 50us aten::mm id=1
call main 7.01ms 5us cudaLaunchKernel corr=1 id=1
kernel 7 7.02ms 5ms sgemm corr=1
python main 8ms 10ms torch/profiler/profiler.py(811): step
call main 8ms 4.1ms cudaDeviceSynchronize
op main 20ms 50us aten::mm id=2
call main 20.01ms 5us cudaLaunchKernel corr=2 id=2
kernel 7 20.02ms 5ms sgemm corr=2
)");
  EXPECT_TRUE(summary.syncs.empty());
  EXPECT_FALSE(summary.time.idle_by_cause.contains(IdleCause::synchronization));
}

TEST(Summarize, RangesNameCollectives) {
  const TraceSummary summary = summary_of(R"(
mark main 0us 50us nccl:all_to_all
call main 10us 5us cudaLaunchKernel corr=1
kernel 20 20us 500us ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem) corr=1
)");
  ASSERT_EQ(summary.collectives.size(), 1U);
  EXPECT_EQ(summary.collectives[0].shape.name, "all_to_all");
}

TEST(Summarize, OperatorsNameTheFamilyOfKernelsOfUnknownNames) {
  const TraceSummary summary = summary_of(R"(
op main 0us 50us dpsk::grouped_gemm id=1
call main 10us 5us cudaLaunchKernel corr=1 id=1
kernel 7 20us 500us k_17 corr=1
)");
  ASSERT_EQ(summary.ops.size(), 1U);
  EXPECT_EQ(summary.ops[0].kernels[0].facts.kernel_class, KernelClass::gemm);
  EXPECT_EQ(summary.unclassified_time, Seconds());
}

TEST(Summarize, AFirstCallIsNoOrdinaryWorkOfTheHost) {
  const TraceSummary summary = summary_of(R"(
op main 0ms 8ms aten::mm id=1
call main 7.99ms 10us cudaLaunchKernel corr=1 id=1
kernel 7 8.02ms 10us sgemm corr=1
repeat 4 every 1ms
op main 8.5ms 40us aten::mm id=2
call main 8.51ms 10us cudaLaunchKernel corr=2 id=2
kernel 7 8.53ms 900us sgemm corr=2
end
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].cause, IdleCause::module_loading);
  EXPECT_EQ(summary.host_work[0].name, "aten::mm");
}

// cuDNN chooses an algorithm for each of three shapes: in the next pass it need not.
TEST(Summarize, TheFirstCallOfEachShapeSetsALibraryUp) {
  const TraceSummary summary = summary_of(R"(
op main 0ms 2ms aten::cudnn_convolution id=1 dims=[[8,3,9,9],[8,3,3,3]] types=[float,float]
call main 1.99ms 10us cudaLaunchKernel corr=1 id=1
kernel 7 2.02ms 10us conv corr=1
op main 2.1ms 2ms aten::cudnn_convolution id=2 dims=[[8,8,9,9],[8,8,3,3]] types=[float,float]
call main 4.09ms 10us cudaLaunchKernel corr=2 id=2
kernel 7 4.12ms 10us conv corr=2
op main 4.2ms 2ms aten::cudnn_convolution id=3 dims=[[8,8,7,7],[8,8,3,3]] types=[float,float]
call main 6.19ms 10us cudaLaunchKernel corr=3 id=3
kernel 7 6.22ms 10us conv corr=3
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].cause, IdleCause::module_loading);
  EXPECT_EQ(summary.host_work[0].count, 3);
}

TEST(Summarize, ARangeAroundMuchElseIsNoNameOfAPause) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 100ms backward pass
repeat 10 every 10ms
op main 0ms 40us aten::mm id=2
call main 0.01ms 10us cudaLaunchKernel corr=2 id=2
kernel 7 0.03ms 900us sgemm corr=2
end
)");
  ASSERT_FALSE(summary.host_work.empty());
  for (const HostWorkUse& work : summary.host_work) EXPECT_EQ(work.name, "");
}

// CUDA's start and a first call of half a second, then a launch every ten milliseconds.
TEST(Summarize, WithoutStepsWhatFollowsTheFirstCallsIsJudged) {
  const std::string start = R"(
call main 0ms 400ms cuInit
call main 400ms 100ms cudaLaunchKernel corr=1
kernel 7 500ms 1ms a corr=1
)";
  const auto rounds = [&](const std::string& period, const std::string& kernel) {
    return summary_of(start + "repeat 20 every " + period + R"(
call main 501ms 5us cudaLaunchKernel corr=2
kernel 7 501.1ms )" + kernel +
                      " a corr=2\nend\n");
  };
  const TraceSummary summary = rounds("10ms", "1ms");
  EXPECT_NEAR(us(summary.time.span), 692'100 - 500'000, 1e-3);
  EXPECT_NEAR(us(summary.whole.span), 692'100, 1e-3);
  // Twenty milliseconds behind half a second say nothing of a steady state; but for a busy GPU.
  EXPECT_NEAR(us(rounds("1ms", "100us").time.span), 520'200, 1e-3);
  EXPECT_NEAR(us(rounds("1ms", "990us").time.span), 521'090 - 500'000, 1e-3);
}

// A module that is loaded behind nearly all of the work divides nothing.
TEST(Summarize, WithoutStepsALateSetUpIsJudgedToo) {
  const TraceSummary summary = summary_of(R"(
repeat 20 every 2ms
call main 0ms 5us cudaLaunchKernel corr=1
kernel 7 0.1ms 1ms a corr=1
end
call main 40ms 1000ms cuModuleLoadData
call main 1041ms 5us cudaLaunchKernel corr=2
kernel 7 1041.1ms 1ms a corr=2
)");
  EXPECT_NEAR(us(summary.time.span), 1'042'000, 1e-3);
}

// A check, ten seconds of the host, and then what is measured.
TEST(Summarize, OneLongPauseIsNotJudged) {
  const auto rounds = [](const std::string& first, const std::string& kernel = "a",
                         int count = 40) {
    return summary_of(first + fmt::format(R"(
call main 0ms 5us cudaLaunchKernel corr=1
kernel 7 0.1ms 1ms a corr=1
repeat {} every 2ms
call main 10000ms 5us cudaLaunchKernel corr=2
kernel 7 10000.1ms 1ms {} corr=2
end
)",
                                          count, kernel));
  };
  const TraceSummary summary = rounds("");
  EXPECT_NEAR(us(summary.time.span), 79'100, 200);
  EXPECT_NEAR(us(summary.before), 10'000'000, 200);
  EXPECT_TRUE(summary.before_work.empty());
  // What is left behind a long set-up is judged by what it holds.
  const TraceSummary cold = rounds("call main 2ms 9990ms cuModuleLoadData\n");
  EXPECT_NEAR(us(cold.time.span), 10'079'100, 200);
  // Kernels that do not repeat, or few of them, are no program's rounds.
  EXPECT_NEAR(us(rounds("", "k{i}").time.span), 10'079'100, 200);
  EXPECT_NEAR(us(rounds("", "a", 19).time.span), 10'037'100, 200);
}

// Twelve tensors are copied before the first kernel, into memory that is allocated for them.
TEST(Summarize, TheUploadOfWeightsIsNoStep) {
  const std::string uploads = R"(
repeat 12 every 10ms
call main 0ms 1ms {}
call main 1ms 8ms cudaMemcpy corr=1
copy 7 1ms 8ms HtoD pageable bytes=8000000 corr=1
end
repeat 20 every 10ms
call main 120ms 5us cudaLaunchKernel corr=2
kernel 7 120.1ms 9ms a corr=2
end
)";
  const auto with = [&](const std::string& call) {
    std::string text = uploads;
    return summary_of(text.replace(text.find("{}"), 2, call));
  };
  const TraceSummary summary = with("cudaMalloc");
  EXPECT_TRUE(summary.steps.durations.empty());
  EXPECT_NEAR(us(summary.time.span), 319'100 - 120'000, 1e-3);
  EXPECT_TRUE(summary.copies.empty());
  EXPECT_EQ(with("cudaEventQuery").copies.size(), 1U);  // the inputs of a recorded pass
}

// Twenty kernels or more of names that come four times each, and a tenth as many on the other side.
TEST(Summarize, OneLongPauseStandsBesideRounds) {
  const auto span = [](int count, int names, int before) {
    std::string text;
    for (int i = 0; i < before; ++i) {
      text += fmt::format(
          "call main {0}ms 5us cudaLaunchKernel corr={1}\nkernel 7 {0}.1ms 1ms a corr={1}\n", 2 * i,
          i + 1);
    }
    for (int i = 0; i < count; ++i) {
      text += fmt::format(
          "call main {0}ms 5us cudaLaunchKernel corr={1}\nkernel 7 {0}.1ms 1ms k{2} corr={1}\n",
          10'000 + 2 * i, 100 + i, i % names);
    }
    return us(summary_of(text).time.span);
  };
  EXPECT_NEAR(span(20, 1, 1), 39'000, 1e-3);
  EXPECT_NEAR(span(19, 1, 1), 10'037'000, 1e-3);
  EXPECT_NEAR(span(40, 10, 1), 79'000, 1e-3);
  EXPECT_NEAR(span(40, 11, 1), 10'079'000, 1e-3);
  EXPECT_NEAR(span(40, 1, 4), 79'000, 1e-3);
  EXPECT_NEAR(span(40, 1, 5), 10'079'000, 1e-3);
}

// From the first launch of a kernel on, where ten tensors were copied before.
TEST(Summarize, TheUploadOfFewTensorsIsAnInput) {
  const auto span = [](int tensors) {
    std::string text;
    for (int i = 0; i < tensors; ++i) {
      text += fmt::format(
          "call main {0}ms 1ms cudaMalloc\ncall main {2}ms 8ms cudaMemcpy corr={1}\n"
          "copy 7 {2}ms 8ms HtoD pageable bytes=8000000 corr={1}\n",
          10 * i, i + 1, 10 * i + 1);
    }
    for (int i = 0; i < 20; ++i) {
      text += fmt::format(
          "call main {0}ms 5us cudaLaunchKernel corr={1}\nkernel 7 {0}.1ms 9ms a corr={1}\n",
          120 + 10 * i, 100 + i);
    }
    return us(summary_of(text).time.span);
  };
  EXPECT_NEAR(span(9), 319'100 - 1'000, 1e-3);
  EXPECT_NEAR(span(10), 319'100 - 120'000, 1e-3);
}

// Without steps the first batch may be the start of the workers.
TEST(Summarize, OneBatchTellsNoRate) {
  const TraceSummary summary = summary_of(R"(
mark main 0ms 100ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 100ms 5us cudaLaunchKernel corr=1
kernel 7 100.1ms 10ms a corr=1
mark main 115ms 20ms enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
call main 135ms 5us cudaLaunchKernel corr=2
kernel 7 135.1ms 10ms a corr=2
)");
  EXPECT_TRUE(summary.steps.durations.empty());
  ASSERT_EQ(summary.loaders.size(), 1U);
  EXPECT_EQ(summary.loaders[0].count, 2);
  EXPECT_NEAR(us(summary.loaders[0].waiting), 20'000, 1e-3);
}

// PyTorch 2.1 names neither size nor type at the collective; its operators have them.
TEST(Summarize, OperatorsSayWhatOldCollectivesMove) {
  const TraceSummary summary = summary_of(R"(
op main 0us 100us record_param_comms dims=[[],[],[],[],[],[],[],[]] values=[x,3,9,0,x,x,x,8]
op main 2us 90us nccl:all_reduce dims=[[4,256]] types=[c10::Half]
call main 50us 5us cudaLaunchKernel corr=1
kernel 7 200us 50us ncclKernel_AllReduce_RING_LL_Sum_half corr=1
)");
  ASSERT_EQ(summary.collectives.size(), 1U);
  const CollectiveShape& shape = summary.collectives[0].shape;
  EXPECT_EQ(shape.name, "all_reduce");
  EXPECT_EQ(shape.dtype, "Half");
  EXPECT_EQ(shape.in_elements, 1024);
  EXPECT_EQ(shape.group_size, 8);
}

TEST(Summarize, PlainTypesOfOldCollectivesAreTensorsToo) {
  const TraceSummary summary = summary_of(R"(
op main 2us 90us nccl:all_to_all dims=[[6144]] types=[float]
call main 50us 5us cudaLaunchKernel corr=1
kernel 7 200us 50us ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t corr=1
)");
  ASSERT_EQ(summary.collectives.size(), 1U);
  EXPECT_EQ(summary.collectives[0].shape.dtype, "Float");
  EXPECT_EQ(summary.collectives[0].shape.in_elements, 6144);
}

TEST(Summarize, SizesOfOldCollectivesAreThoseOfTheirFirstTensor) {
  const auto elements = [](const std::string& dims) {
    return summary_of("op main 2us 90us nccl:all_reduce dims=" + dims +
                      " types=[float]\n"
                      "call main 50us 5us cudaLaunchKernel corr=1\n"
                      "kernel 7 200us 50us ncclKernel_AllReduce_RING_LL_Sum_float corr=1\n")
        .collectives.at(0)
        .shape.in_elements;
  };
  EXPECT_EQ(elements("[[4,256],[7]]"), 1024);
  EXPECT_EQ(elements("[[]]"), 0);
  EXPECT_EQ(elements("[[-1,4]]"), 0);
  EXPECT_EQ(elements("[[9223372036854775807,2]]"), 0);
}

// One call of a compiled function, whose host part comes between its launches.
TEST(Summarize, HostWorkIsNamedByTheOperatorThatHoldsIt) {
  const TraceSummary summary = summary_of(R"(
op main 0us 40ms CompiledFunction
repeat 4 every 10ms
op main 9ms 100us aten::mm id=1
call main 9010us 5us cudaLaunchKernel corr=1 id=1
kernel 7 9020us 900us ampere_sgemm_128x64_tn corr=1
end
)");
  ASSERT_EQ(summary.host_work.size(), 1U);
  EXPECT_EQ(summary.host_work[0].name, "CompiledFunction");
  EXPECT_EQ(summary.host_work[0].count, 1);
  EXPECT_NEAR(us(summary.host_work[0].shortest), 9'010, 1e-3);
  EXPECT_NEAR(us(summary.host_work[0].longest), 9'995, 1e-3);
}

// TorchScript compiles a fused kernel before its first launch.
TEST(Summarize, WhatEndsInTheFirstLaunchOfACompiledKernelIsLoading) {
  const TraceSummary summary = summary_of(R"(
op main 0us 1ms aten::mm
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 100us ampere_sgemm_128x64_tn corr=1
op main 2ms 160ms forward
call main 150ms 5us cudaLaunchKernel corr=2
kernel 7 150010us 10ms fused_mul_add_1234 corr=2
)");
  ASSERT_FALSE(summary.host_work.empty());
  EXPECT_EQ(summary.host_work[0].cause, IdleCause::module_loading);
  EXPECT_EQ(summary.host_work[0].name, "before the first fused_mul_add_1234");
}

// The queue is full: a launch returns when the GPU is done with another.
TEST(Summarize, LaunchesThatWaitForRoomAreNoWorkOfTheHost) {
  const TraceSummary summary = summary_of(R"(
repeat 4 every 1ms
op main 0us 990us aten::mm id=1
call main 5us 980us cudaLaunchKernel corr=1 id=1
kernel 7 10us 1ms ampere_sgemm_128x64_tn corr=1
end
)");
  EXPECT_NEAR(us(summary.host_busy), 4 * (10 + 20 + 10), 30);
}

TEST(Summarize, SaysHowManyRoundsAMarkHolds) {
  std::string text = "mark main 0us 5ms ProfilerStep#2\n";
  for (int i = 0; i < 100; ++i) {
    const int at = 1000 * (i / 20) + 40 * (i % 20);
    text += fmt::format(
        "call main {0}us 5us cudaLaunchKernel corr={1}\nkernel 7 {0}.5us 30us k{2} corr={1}\n", at,
        i + 1, i % 20);
  }
  const TraceSummary summary = summary_of(text);
  EXPECT_EQ(summary.steps.source, StepSource::repetition);
  EXPECT_EQ(summary.steps.durations.size(), 5U);
  EXPECT_EQ(summary.steps.rounds, 5);
}

// The first and the last of six steps of an engine are slow.
TEST(Summarize, TheWorkOfStepsThatAreSetApartIsToo) {
  std::string text;
  int at = 0;
  for (int i = 0; i < 6; ++i) {
    const int length = i == 0 || i == 5 ? 40 : 10;
    text += fmt::format(
        "mark main {0}ms {1}ms step[DECODE bs=4]\n"
        "call main {0}.1ms 10us cudaLaunchKernel corr={2}\nkernel 7 {0}.2ms 9ms a corr={2}\n",
        at, length, i + 1);
    at += length;
  }
  const TraceSummary summary = summary_of(text);
  EXPECT_TRUE(summary.steps.first_apart);
  EXPECT_TRUE(summary.steps.last_apart);
  EXPECT_EQ(summary.steps.durations.size(), 4U);
  EXPECT_EQ(summary.steps.work, std::vector<ServingStage>(4, ServingStage::decode));
}

// Eight of the nine milliseconds of each exchange the host allocates memory.
TEST(Summarize, StepsAreLimitedByAnAllocationBesideAnExchange) {
  const TraceSummary summary = summary_of(R"(
repeat 3 every 20ms
mark main 0us 20ms ProfilerStep#{i}
op main 0us 11ms aten::add id=1
call main 10us 4us cudaLaunchKernel corr=1 id=1
kernel 7 20us 500us ampere_sgemm_128x64_tn corr=1
call main 16us 4us cudaLaunchKernel corr=2
kernel 20 520us 9ms ncclDevKernel_SendRecv(all) corr=2
call main 1000us 8ms cudaMalloc id=1
call main 9600us 4us cudaLaunchKernel corr=3 id=1
kernel 7 9610us 7ms ampere_sgemm_128x64_tn corr=3
end
)");
  ASSERT_EQ(summary.steps.limits.size(), 3U);
  for (const StepLimit& limit : summary.steps.limits) {
    EXPECT_EQ(limit.part, StepPart::idle_allocator);
    EXPECT_NEAR(us(limit.time), 8'090, 1e-3);
  }
  EXPECT_NEAR(us(summary.time.communication_beside_allocation), 3 * 8'000, 1e-3);
  EXPECT_NEAR(us(summary.time.exposed_communication), 3 * 9'000, 1e-3);
}

// Eight forward passes of a program without marks, behind an upload that takes longer.
TEST(Summarize, RoundsOfKernelsBehindALongUploadAreSteps) {
  std::string text = R"(
repeat 40 every 10ms
call main 0us 5us cudaMemcpyAsync corr=1
copy 7 10us 9ms HtoD bytes=100000000 corr=1
end
repeat 8 every 2ms
)";
  for (int kernel = 0; kernel < 20; ++kernel) {
    const std::string at = std::to_string(400'000 + 100 * kernel);
    const std::string id = std::to_string(kernel + 2);
    text += "call main " + at + "us 5us cudaLaunchKernel corr=" + id + "\nkernel 7 " + at +
            "us 90us k" + std::to_string(kernel) + " corr=" + id + "\n";
  }
  const TraceSummary summary = summary_of(text + "end\n");
  EXPECT_EQ(summary.steps.source, StepSource::repetition);
  EXPECT_EQ(summary.steps.durations.size(), 8U);
}

}  // namespace
}  // namespace rooftile
