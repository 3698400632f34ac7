#include "rooftile/analysis/trace/idle.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "rooftile/analysis/trace/steps.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

struct Explained {
  std::map<IdleCause, Nanoseconds> causes;
  Nanoseconds idle = 0;
  std::vector<IdlePiece> pieces;
  std::vector<HostWait> waits;
};

Explained explain(const std::string& text, bool submits_in_batches = false) {
  auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  timeline->submits_in_batches = submits_in_batches;
  const Links links = link_events(*timeline);
  const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
  const Window whole = whole_recording(*timeline);
  const BusySplit split = split_busy(*timeline, track, whole);
  Explained explained;
  explained.waits = find_waits(*timeline, links, track);
  explained.pieces = explain_gaps(*timeline, links, track, split, explained.waits);
  explained.causes = idle_by_cause(explained.pieces, whole);
  explained.idle = whole.span() - split.busy;
  return explained;
}

using Causes = std::map<IdleCause, Nanoseconds>;

// Nothing that is launched into a graph runs before the graph does.
TEST(Idle, RecordingAGraphIsLoading) {
  EXPECT_EQ(explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 100us 5us cudaStreamBeginCapture
call main 200us 5us cudaLaunchKernel corr=2
call main 300us 5us cudaLaunchKernel corr=3
call main 795us 5us cudaStreamEndCapture
call main 900us 5us cudaGraphLaunch corr=4
kernel 7 910us 90us a corr=4
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000 + 10'000},
                    {IdleCause::host_work, 80'000 + 100'000},
                    {IdleCause::module_loading, 700'000}}));
}

// torch.cuda.graph waits for the device, collects garbage and frees memory first.
TEST(Idle, RecordingAGraphBeginsWithTheWaitBefore) {
  EXPECT_EQ(explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 30us 5us cudaDeviceSynchronize
call main 90us 5us cudaLaunchKernel corr=2
kernel 7 96us 1us seed corr=2
call main 100us 5us cudaStreamBeginCapture
call main 795us 5us cudaStreamEndCapture
call main 900us 5us cudaGraphLaunch corr=4
kernel 7 910us 90us a corr=4
)")
                .causes.at(IdleCause::module_loading),
            800'000 - 35'000 - 7'000);  // but for the kernel and its launch
}

// Every recording lasts from 0 to the end of its op, in which all happens.
TEST(Idle, LaunchesThatComeTooLate) {
  EXPECT_EQ(explain(R"(
op main 0us 100us aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 10us a corr=1
call main 40us 5us cudaLaunchKernel corr=2
kernel 7 50us 10us b corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 40'000}, {IdleCause::outside, 40'000}}));
}

// A program that calls CUDA itself does something else between two calls 40 us apart.
TEST(Idle, CodeBetweenCallsIsNoLaunching) {
  EXPECT_EQ(explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 45us 5us cudaLaunchKernel corr=2
kernel 7 55us 10us b corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000 + 10'000}, {IdleCause::host_work, 25'000}}));
}

// An operator that starts nothing on the GPU, as one on tensors of the CPU, is such code where it
// is long; Python between two operators is how a framework launches.
TEST(Idle, LongOperatorsThatLaunchNothingAreNoLaunching) {
  EXPECT_EQ(
      explain(R"(
op main 0us 20us aten::mul
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
op main 120us 20us aten::mul
call main 125us 5us cudaLaunchKernel corr=2
kernel 7 135us 10us b corr=2
op main 150us 250us aten::sort
op main 420us 20us aten::mul
call main 425us 5us cudaLaunchKernel corr=3
kernel 7 435us 10us c corr=3
)")
          .causes,
      (Causes{{IdleCause::launch, 10'000 + 115'000 + 40'000}, {IdleCause::host_work, 250'000}}));
}

TEST(Idle, CallsThatCopyAreNoLaunching) {
  EXPECT_EQ(explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 20us 20us cudaMemcpyAsync corr=2
copy 7 45us 5us HtoD corr=2
call main 44us 5us cudaLaunchKernel corr=3
kernel 7 55us 10us b corr=3
)")
                .causes,
            (Causes{{IdleCause::launch, 14'000},
                    {IdleCause::copy, 20'000},
                    {IdleCause::between_kernels, 6'000}}));
}

// The CPU reads what the kernel wrote, one fault after another, and then computes for 2 ms.
TEST(Idle, MigrationsOfManagedMemory) {
  EXPECT_EQ(explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
call main 15us 10us cudaDeviceSynchronize
copy 17 320us 20us migrationDtoH
copy 17 640us 20us migrationDtoH
copy 17 2660us 20us migrationDtoH
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000},
                    {IdleCause::migration, 600'000},
                    {IdleCause::host_work, 2'000'000}}));
}

// Without the wait the host would have launched 50 us earlier, while kernel a still ran.
TEST(Idle, AWaitIsToBlameForTheWorkAfterIt) {
  const Explained explained = explain(R"(
op main 0us 100us aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 50us a corr=1
call main 20us 55us cudaStreamSynchronize
call main 90us 5us cudaLaunchKernel corr=2
kernel 7 95us 5us b corr=2
)");
  EXPECT_EQ(explained.causes,
            (Causes{{IdleCause::launch, 20'000}, {IdleCause::synchronization, 25'000}}));
}

// The wait cost the host 15 us beside a busy GPU: of the 50 us of work after it 35 would remain.
TEST(Idle, OnlyForAsLongAsItBlocked) {
  EXPECT_EQ(
      explain(R"(
op main 0us 140us aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 50us a corr=1
call main 55us 20us cudaStreamSynchronize
call main 120us 5us cudaLaunchKernel corr=2
kernel 7 125us 15us b corr=2
)")
          .causes,
      (Causes{{IdleCause::launch, 20'000 + 35'000}, {IdleCause::synchronization, 5'000 + 15'000}}));
}

// The host was 50 us ahead. Four launches later it is ahead again: the gaps up to there, 5 us each
// but for the first, are those of the wait, whatever comes later.
TEST(Idle, AWaitIsToBlameUntilTheHostIsAheadAgain) {
  const Explained explained = explain(R"(
op main 0us 1200us aten::work
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 190us a corr=1
call main 10us 192us cudaStreamSynchronize
call main 220us 5us cudaLaunchKernel corr=2
kernel 7 230us 10us b corr=2
call main 240us 5us cudaLaunchKernel corr=3
kernel 7 250us 10us c corr=3
call main 260us 5us cudaLaunchKernel corr=4
kernel 7 270us 400us d corr=4
call main 280us 5us cudaLaunchKernel corr=5
kernel 7 670us 10us e corr=5
call main 780us 5us cudaLaunchKernel corr=6
kernel 7 790us 410us f corr=6
)");
  EXPECT_EQ(explained.causes,
            (Causes{{IdleCause::launch, 10'000 + 110'000}, {IdleCause::synchronization, 50'000}}));
}

// The driver copies on from its own buffer when the GPU is done.
TEST(Idle, TheEndOfACopyToPageableMemoryIsTheCopys) {
  EXPECT_EQ(explain(R"(
op main 0us 400us aten::work
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 90us a corr=1
call main 10us 240us cudaMemcpy corr=2
copy 7 100us 100us DtoH pageable corr=2
call main 260us 5us cudaLaunchKernel corr=3
kernel 7 270us 130us b corr=3
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000},
                    {IdleCause::synchronization, 20'000},
                    {IdleCause::copy, 50'000}}));
}

TEST(Idle, LoaderBeforeACopyThatBlocks) {
  const Explained explained = explain(R"(
op main 80us 180us aten::work
mark main 100us 100us enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
call main 80us 5us cudaLaunchKernel corr=1
kernel 7 90us 40us a corr=1
call main 205us 11us cudaMemcpyAsync corr=2
copy 7 208us 7us HtoD pageable corr=2
call main 230us 5us cudaLaunchKernel corr=3
kernel 7 235us 25us b corr=3
)");
  // 80-90 launch; 130-200 loader, 200-205 its credit; 205-208 and 215-216 copy, 216-223 its credit,
  // which ends the loader's; 223-235 launch.
  EXPECT_EQ(explained.causes, (Causes{{IdleCause::launch, 22'000},
                                      {IdleCause::data_loading, 75'000},
                                      {IdleCause::copy, 11'000}}));
}

// A program from its start: CUDA's initialisation shows.
TEST(Idle, StartUpIsNoWorkOfTheHost) {
  const std::string program = R"(
op main 0us 50ms aten::work
call main 30ms 5us cudaLaunchKernel corr=1
kernel 7 30.01ms 20ms a corr=1
)";
  EXPECT_EQ(explain("call main 10ms 5ms cuInit\n" + program).causes,
            (Causes{{IdleCause::start_up, 30'010'000}}));
  EXPECT_EQ(explain("call main 10ms 15ms cuInit\noverhead 12ms 8ms CUDA profiling initialization\n"
                    "overhead 21ms 1ms dlopen(libcuda.so.1)\n" +
                    program)
                .causes,
            (Causes{{IdleCause::start_up, 22'010'000}, {IdleCause::profiler, 8'000'000}}));
  EXPECT_FALSE(explain(program).causes.contains(IdleCause::start_up));
}

TEST(Idle, PausesOfTheGpuAreItsOwn) {
  EXPECT_EQ(explain(R"(
op main 0us 40us aten::work
call main 5us 2us cudaLaunchKernel corr=1
call main 8us 2us cudaLaunchKernel corr=2
kernel 7 20us 10us a corr=1
kernel 7 32us 8us b corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 20'000}, {IdleCause::between_kernels, 2'000}}));
}

TEST(Idle, AllocatorAndRecordingsWithoutAHost) {
  EXPECT_EQ(explain(R"(
op main 0us 60us aten::work
call main 5us 30us cudaMalloc
call main 40us 5us cudaLaunchKernel corr=1
kernel 7 50us 10us a corr=1
)")
                .causes,
            (Causes{{IdleCause::allocator, 30'000}, {IdleCause::launch, 20'000}}));
  EXPECT_EQ(explain("kernel 7 0us 10us a\nkernel 7 15us 10us b\n").causes,
            (Causes{{IdleCause::unknown, 5'000}}));
}

// The launch returned at 15 us; nothing that the trace shows kept the kernel from starting.
TEST(Idle, ALaunchExplainsAGapOnlyUntilItHasReturned) {
  EXPECT_EQ(explain(R"(
op main 0us 150ms aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 150ms 1ms a corr=1
call main 20us 150.98ms cudaDeviceSynchronize
)")
                .causes,
            (Causes{{IdleCause::launch, 15'000}, {IdleCause::unrecorded_work, 149'985'000}}));
}

// Nodes of a graph that was launched before the gap. 30 us are a pause, 8 ms are not.
// A GPU that ran out of work for a wait begins anew; that is no part of the wait.
TEST(Idle, WorkThatStartsLateBehindAWaitIsARestart) {
  const Explained explained = explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 100us a corr=1
call main 20us 95us cudaDeviceSynchronize
call main 120us 5us cudaLaunchKernel corr=2
kernel 7 625us 75us b corr=2
)");
  EXPECT_EQ(explained.causes.at(IdleCause::restart), 625'000 - 120'000 - 10'000);
  EXPECT_EQ(explained.causes.at(IdleCause::synchronization), 130'000 - 110'000);
}

// CUDA knows the time between two events when both are over: PyTorch's profiler leaves out the wait
// for them.
TEST(Idle, AskingForElapsedTimeEndsAWaitThatWasNotRecorded) {
  const auto waits = [](const char* kernel) {
    std::vector<Window> found;
    for (const HostWait& wait : explain(std::string(R"(
call main 0us 5us cudaLaunchKernel corr=1
call main 20us 5us cudaEventElapsedTime
call main 5050us 5us cudaEventElapsedTime
call main 5100us 5us cudaLaunchKernel corr=2
kernel 7 5110us 100us b corr=2
)") + kernel)
                                    .waits) {
      if (wait.cause == IdleCause::synchronization) found.push_back({wait.start, wait.end});
    }
    return found;
  };
  EXPECT_EQ(waits("kernel 7 10us 5000us a corr=1\n"), (std::vector<Window>{{25'000, 5'050'000}}));
  EXPECT_EQ(waits("kernel 7 10us 4000us a corr=1\n"), std::vector<Window>{});  // over long before
}

TEST(Idle, QueuedWorkThatStartsLateWaitedForWhatIsNotRecorded) {
  EXPECT_EQ(explain(R"(
op main 0us 20ms aten::work
call main 0us 10us cudaGraphLaunch corr=1
kernel 7 10us 1ms a corr=1
kernel 7 1.04ms 1ms b corr=1
kernel 7 10.04ms 9.96ms c corr=1
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000},
                    {IdleCause::between_kernels, 30'000},
                    {IdleCause::unrecorded_work, 8'000'000}}));
}

TEST(Idle, AWaitForAnotherGpuOfTheTraceIsNone) {
  EXPECT_EQ(explain(R"(
op main 0us 20ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
call main 20us 10us cudaLaunchKernel corr=2
call main 40us 10us cudaLaunchKernel corr=3
kernel 7 10us 9.99ms a corr=1
kernel 1:7 10ms 5ms b corr=2
kernel 7 15ms 5ms c corr=3
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000}, {IdleCause::between_kernels, 5'000'000}}));
}

// 3 ms in which nothing is launched: operators on the CPU, Python. They ran beside kernel a for 1
// us, which is the work's credit. Half a millisecond is launching.
TEST(Idle, AMillisecondWithoutALaunchIsOtherWork) {
  EXPECT_EQ(explain(R"(
op main 0us 6ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 10us 1us a corr=1
op main 1ms 1ms aten::sort
call main 3.01ms 10us cudaLaunchKernel corr=2
kernel 7 3.02ms 500us b corr=2
call main 3.9ms 10us cudaLaunchKernel corr=3
kernel 7 3.91ms 2.09ms c corr=3
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000 + 9'000 + 390'000},
                    {IdleCause::host_work, 2'999'000 + 1'000}}));
}

// A launch of 20 ms on an idle GPU loads a module; so do the calls for it, however short.
TEST(Idle, LoadingKernels) {
  EXPECT_EQ(explain(R"(
op main 0us 30ms aten::work
call main 0us 100us cuModuleLoadData
call main 100us 20ms cudaLaunchKernel corr=1
kernel 7 20.1ms 9.9ms a corr=1
)")
                .causes,
            (Causes{{IdleCause::module_loading, 20'100'000}}));
}

// The kernel ran before, so the host was held up: in the call, or before it.
TEST(Idle, ALongCallThatIsNotTheFirstLoadsNothing) {
  EXPECT_EQ(explain(R"(
op main 0us 40ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 10us 1ms a corr=1
call main 5ms 20ms cudaLaunchKernel corr=2
kernel 7 25ms 15ms a corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000}, {IdleCause::host_work, 23'990'000}}));
}

// A launch call of 20 ms that waits for room in the queue loads nothing and gives no credit.
// 1.6 ms for 1,000 nodes is what launching them takes; the same for two kernels is none of that.
TEST(Idle, LaunchingALargeGraphIsNoFirstCall) {
  std::string trace = "call main 0us 1600us cudaGraphLaunch corr=1\n";
  std::string nodes;
  for (int i = 0; i < 1000; ++i) {
    nodes += "kernel 7 " + std::to_string(1600 + i) + "us 1us node corr=1\n";
  }
  const Causes causes = explain(trace + nodes).causes;
  EXPECT_EQ(causes.count(IdleCause::module_loading), 0U);
  EXPECT_GT(causes.at(IdleCause::profiler), 1'500'000);
  EXPECT_EQ(
      explain(trace + "kernel 7 1600us 1us node corr=1\n").causes.count(IdleCause::module_loading),
      1U);
}

// Of ten milliseconds without a call the thread sleeps through seven.
TEST(Idle, SleepIsNoWork) {
  const Causes causes = explain(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 10us a corr=1
sleep main 1000us 7000us
call main 10000us 5us cudaLaunchKernel corr=2
kernel 7 10010us 10us b corr=2
)")
                            .causes;
  EXPECT_EQ(causes.at(IdleCause::asleep), 7'000'000);
  EXPECT_EQ(causes.at(IdleCause::host_work), 10'000'000 - 7'000'000 - 10'000);
}

// Work that starts every 2.5 ms, whenever it was launched, waits for a time slice.
TEST(Idle, StartsEquallyFarApartAreTimeSlices) {
  const auto slice_of = [](const std::string& every) {
    return time_slice_of(explain("repeat 10 every " + every + R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 2400us 40us a corr=1
end
)")
                             .pieces);
  };
  EXPECT_EQ(slice_of("2500us"), 2'500'000);
  EXPECT_EQ(time_slice_of(explain("call main 0us 5us cudaLaunchKernel corr=1\n"
                                  "kernel 7 2400us 40us a corr=1\n")
                              .pieces),
            0);
}

// Nothing keeps the GPU busy that the call could wait for.
TEST(Idle, FreeingForSecondsIsSetUp) {
  const Causes causes = explain(R"(
call main 0us 4us cudaLaunchKernel corr=1
kernel 7 10us 10us first corr=1
call main 100us 3s cudaFree
call main 3001ms 4us cudaLaunchKernel corr=2
kernel 7 3001010us 10us second corr=2
)")
                            .causes;
  EXPECT_EQ(causes.count(IdleCause::allocator), 0U);
  EXPECT_EQ(causes.count(IdleCause::module_loading), 1U);
}

// A program's first call makes CUDA's context. To pin as much memory takes as long.
TEST(Idle, AllocatingForSecondsIsSetUp) {
  const auto causes = [](const std::string& allocates) {
    return explain("call main 0us 2s " + allocates + R"(
call main 2001ms 4us cudaLaunchKernel corr=1
kernel 7 2001010us 10us first corr=1
)")
        .causes;
  };
  EXPECT_EQ(causes("cudaMalloc").count(IdleCause::allocator), 0U);
  EXPECT_EQ(causes("cudaMalloc").count(IdleCause::module_loading), 1U);
  EXPECT_EQ(causes("cudaHostAlloc").count(IdleCause::allocator), 1U);
}

// Later ones launch after 10 us: this one is set up. As the host's own way it is not.
TEST(Idle, AFirstOperatorThatIsFarLongerIsSetUp) {
  const std::string first = R"(
op main 0us 520us aten::linear
call main 500us 5us cudaLaunchKernel corr=1
kernel 7 510us 20us gemm corr=1
)";
  const std::string later = R"(
repeat 4 every 100us
op main 600us 30us aten::linear
call main 610us 5us cudaLaunchKernel corr=2
kernel 7 620us 20us gemm corr=2
end
)";
  const Explained explained = explain(first + later);
  EXPECT_EQ(explained.causes.at(IdleCause::module_loading), 500'000);
  EXPECT_FALSE(explain(first).causes.contains(IdleCause::module_loading));
}

// A launch takes 700 us, for 300 of which the recording says that it loads; later ones take 5 us.
TEST(Idle, AFirstLaunchThatIsFarLongerLoads) {
  const std::string first = R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 90us a corr=1
call main 150us 700us cudaLaunchKernel corr=2
overhead 200us 300us Runtime Triggered Module Loading
kernel 7 850us 50us b corr=2
)";
  const auto loading = [&](const std::string& kernel) {
    return explain(first + "repeat 3 every 100us\ncall main 950us 5us cudaLaunchKernel corr=3\n" +
                   "kernel 7 960us 50us " + kernel + " corr=3\nend\n")
        .causes.at(IdleCause::module_loading);
  };
  EXPECT_EQ(loading("another"), 300'000);
  EXPECT_EQ(loading("b"), 700'000);
}

// The recorder asks for memory, and goes on in the launch behind it.
TEST(Idle, ALongLaunchBehindTheRecordersWorkIsTheRecorders) {
  const auto of_profiler = [](const std::string& launch, const std::string& loading = "") {
    return explain(
               "call main 0us 5us cudaLaunchKernel corr=1\nkernel 7 10us 90us a corr=1\n"
               "overhead 150us 200us Activity Buffer Request\ncall main 400us " +
               launch + " cudaLaunchKernel corr=2\n" + loading +
               "kernel 7 1ms 50us a corr=2\n"
               "repeat 3 every 100us\ncall main 1010us 5us cudaLaunchKernel corr=3\n"
               "kernel 7 1060us 50us a corr=3\nend\n")
        .causes.at(IdleCause::profiler);
  };
  EXPECT_EQ(of_profiler("590us"), 200'000 + 590'000);
  EXPECT_EQ(of_profiler("90us"), 200'000);
  EXPECT_EQ(of_profiler("590us", "overhead 450us 500us Runtime Triggered Module Loading\n"),
            200'000);
}

// Each of two kernels that run once takes its operator 300 us to launch, other operators take 10.
// Where the recording shows that CUDA starts, those are first calls.
TEST(Idle, OperatorsOfKernelsThatRunOnceLoadInAColdRecording) {
  const std::string start = "call main 0us 10us cuInit\n";
  const std::string usual = R"(
repeat 9 every 100us
op main 100us 30us aten::add
call main 110us 5us cudaLaunchKernel corr=9
kernel 7 120us 20us add corr=9
end
)";
  const std::string once = R"(
op main 2000us 310us aten::conv_a
call main 2300us 5us cudaLaunchKernel corr=1
kernel 7 2310us 20us conv_a corr=1
op main 3000us 310us aten::conv_b
call main 3300us 5us cudaLaunchKernel corr=2
kernel 7 3310us 20us conv_b corr=2
)";
  EXPECT_EQ(explain(start + usual + once).causes.at(IdleCause::module_loading), 600'000);
  EXPECT_FALSE(explain(usual + once).causes.contains(IdleCause::module_loading));
}

// Between two steps of a program whose first kernels were launched before the recording: a loader
// without a name, and a copy that takes long.
TEST(Idle, AKernelThatRanBeforeTheRecordingIsNotLoaded) {
  const auto loading = [](const std::string& before) {
    return explain("kernel 7 0us 2ms " + before + R"( corr=900
call main 100us 5us cudaDeviceSynchronize
call main 500ms 30ms cudaMemcpyAsync corr=1
copy 7 500ms 30ms HtoD pageable corr=1
call main 531ms 5us cudaLaunchKernel corr=2
kernel 7 531.01ms 20us ampere_sgemm_128x64_nn corr=2
call main 700ms 5us cudaLaunchKernel corr=3
kernel 7 700.01ms 20us ampere_sgemm_128x128_nn corr=3
call main 701ms 5us cudaLaunchKernel corr=4
kernel 7 701.01ms 20us ampere_sgemm_128x128_nn corr=4
)")
        .causes.contains(IdleCause::module_loading);
  };
  EXPECT_FALSE(loading("ampere_sgemm_128x64_nn"));
}

// The first allocation creates CUDA's context.
TEST(Idle, TheFirstAllocationIsSetUp) {
  const std::string text = R"(
call main 0us 50ms cudaMalloc
call main 50ms 4us cudaMalloc
call main 50010us 5us cudaLaunchKernel corr=1
kernel 7 50020us 10us a corr=1
)";
  const Causes causes = explain(text).causes;
  EXPECT_EQ(causes.at(IdleCause::allocator), 4'000);
  EXPECT_EQ(causes.at(IdleCause::module_loading), 50'000'000);
}

// Windows' driver keeps launches for up to some milliseconds.
TEST(Idle, LaunchesThatTheDriverKeepsAreLaunches) {
  const std::string late = R"(
op main 0us 4ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 2ms 2ms a corr=1
)";
  EXPECT_EQ(explain(late).causes,
            (Causes{{IdleCause::launch, 10'000}, {IdleCause::unrecorded_work, 1'990'000}}));
  EXPECT_EQ(explain(late, true).causes, (Causes{{IdleCause::launch, 2'000'000}}));
}

TEST(Idle, AFullQueueLoadsNothing) {
  EXPECT_EQ(explain(R"(
op main 0us 30ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 10us 20ms a corr=1
call main 20us 20ms cudaLaunchKernel corr=2
kernel 7 20.1ms 9.9ms a corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000 + 10'000}, {IdleCause::between_kernels, 80'000}}));
  EXPECT_EQ(explain(R"(
op main 0us 30ms aten::work
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 10us 20ms a corr=1
call main 20us 20ms cudaLaunchKernel corr=2
kernel 7 20.1ms 9.9ms b corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 10'000 + 10'000}, {IdleCause::between_kernels, 80'000}}));
}

// It ran beside the copy for 5 us, which is its credit.
TEST(Idle, HipCopiesOnAStreamBlock) {
  EXPECT_EQ(explain(R"(
op main 0us 60us aten::work
call main 5us 40us hipMemcpyWithStream corr=1
copy 7 40us 5us HtoD bytes=64 corr=1
call main 46us 2us hipLaunchKernel corr=2
kernel 7 50us 10us a corr=2
)")
                .causes,
            (Causes{{IdleCause::launch, 5'000}, {IdleCause::copy, 35'000 + 5'000}}));
}

TEST(Idle, AWaitOfAnotherThreadThatLaunchesNothingIsIgnored) {
  EXPECT_EQ(explain(R"(
op main 0us 60us aten::work
call watchdog 5us 30us cudaEventSynchronize
call main 40us 5us cudaLaunchKernel corr=1
kernel 7 50us 10us a corr=1
)")
                .causes,
            (Causes{{IdleCause::launch, 50'000}}));
}

// A thread that reads results, and launches copies for it, waits beside the one that launches the
// kernels: this one runs Python meanwhile.
constexpr std::string_view kReader = R"(
op main 0us 1000us aten::work
call reader 0us 5us cudaMemcpyAsync corr=9
copy 8 5us 5us DtoH bytes=64 corr=9
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 100us a corr=1
call main 980us 5us cudaLaunchKernel corr=2
kernel 7 985us 15us b corr=2
)";

TEST(Idle, AWaitOfAnotherThreadHoldsUpNoneThatIsBusyItself) {
  const std::string reader(kReader);
  EXPECT_EQ(explain(reader + "call reader 50us 900us cudaEventSynchronize\n").causes,
            explain(reader).causes);
  // Nor one that ends after the launch.
  const std::string idle_main = R"(
call reader 0us 5us cudaMemcpyAsync corr=9
copy 8 5us 5us DtoH bytes=64 corr=9
op main 5us 15us aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 100us a corr=1
op main 950us 50us aten::work
call main 980us 5us cudaLaunchKernel corr=2
kernel 7 985us 15us b corr=2
)";
  const std::string late = "call reader 30us 960us cudaEventSynchronize\n";
  EXPECT_FALSE(explain(idle_main + late).causes.contains(IdleCause::synchronization));
}

// The main thread, within its backward pass, waits for autograd's, which waits for the GPU.
TEST(Idle, AWaitOfTheThreadThatTheLaunchingOneWaitsFor) {
  const Causes causes = explain(R"(
op main 0us 15us aten::work
python main 0us 400us train.py(8): step
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 80us a corr=1
op autograd 30us 270us MulBackward0
call autograd 40us 5us cudaLaunchKernel corr=2
kernel 7 100us 100us a corr=2
call autograd 60us 230us cudaStreamSynchronize
op main 320us 80us aten::work
call main 380us 5us cudaLaunchKernel corr=3
kernel 7 385us 15us b corr=3
)")
                            .causes;
  EXPECT_EQ(causes, (Causes{{IdleCause::launch, 20'000}, {IdleCause::synchronization, 185'000}}));
}

// After the wait, kernels of 10 us that take the host 50 us each. Without it they would have been
// launched 300 us earlier, beside the long kernel: as much of the gaps is the wait's.
TEST(Idle, AWaitIsToBlameForTheLeadThatItCost) {
  const std::string wait = R"(
op main 0us 1000us aten::work
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 20us 300us a corr=1
call main 20us 300us cudaStreamSynchronize
)";
  // Of so many kernels, and a last one that no recorded call launched.
  const auto slow = [](int kernels) {
    std::string text;
    for (int i = 0; i < kernels; ++i) {
      const std::string id = " corr=" + std::to_string(i + 2) + "\n";
      text += "call main " + std::to_string(360 + 50 * i) + "us 5us cudaLaunchKernel" + id;
      text += "kernel 7 " + std::to_string(370 + 50 * i) + "us 10us b" + id;
    }
    const int end = 380 + 50 * (kernels - 1);
    return text + "kernel 7 " + std::to_string(end) + "us " + std::to_string(1000 - end) + "us z\n";
  };
  // Queued behind it for so long, the next one shows the host ahead again.
  const std::string ahead = R"(
call main 850us 5us cudaLaunchKernel corr=20
kernel 7 1000us 10us c corr=20
)";
  const auto waited = [](const std::string& text) {
    return explain(text).causes.at(IdleCause::synchronization);
  };
  EXPECT_EQ(waited(wait + slow(5)), 50'000 + 4 * 40'000);
  EXPECT_EQ(waited(wait + slow(5) + ahead), 50'000 + 4 * 40'000);
  // It is behind for 410 us.
  EXPECT_EQ(waited(wait + slow(10) + ahead), 300'000);
}

// A line of a random recording; ids make links that may or may not make sense.
std::string random_line(std::mt19937& random) {
  const auto time = [&](unsigned most) { return std::to_string(random() % most) + "us "; };
  const std::string thread = random() % 2 == 0 ? "main " : "other ";
  const std::string corr = " corr=" + std::to_string(random() % 12) + "\n";
  const std::string stream = std::to_string(random() % 2) + " ";
  switch (random() % 8) {
    case 0:
      return "op " + thread + time(300) + time(80) + "aten::mm\n";
    case 1:
      return "mark " + thread + time(300) + time(80) + "enumerate(DataLoader)#x.__next__\n";
    case 2:
      return "call " + thread + time(300) + time(60) + "cudaStreamSynchronize\n";
    case 3:
      return "call " + thread + time(300) + time(30) + "cudaMalloc\n";
    case 4:
      return "call " + thread + time(300) + time(30) + "cudaMemcpyAsync" + corr;
    case 5:
      return "copy " + stream + time(300) + time(30) + "HtoD pageable" + corr;
    case 6:
      return "kernel " + stream + time(300) + time(30) + "gemm" + corr;
    default:
      return "call " + thread + time(300) + time(10) + "cudaLaunchKernel" + corr;
  }
}

TEST(Idle, PartsAddUpAndWaitsAreDisjointWhateverIsRecorded) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    const int lines = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < lines; ++i) text += random_line(random);
    const Explained explained = explain(text);
    Nanoseconds sum = 0;
    for (const auto& [cause, length] : explained.causes) sum += length;
    EXPECT_EQ(sum, explained.idle) << text;
    for (std::size_t i = 1; i < explained.pieces.size(); ++i) {
      EXPECT_LE(explained.pieces[i - 1].end, explained.pieces[i].start) << text;
    }
    for (std::size_t i = 1; i < explained.waits.size(); ++i) {
      EXPECT_LE(explained.waits[i - 1].end, explained.waits[i].start) << text;
    }
  }
}

// Seven late starts or more, of whose distances four in five are within a tenth of the median.
TEST(Idle, ATimeSliceIsSeenWhereLateStartsComeBack) {
  const auto slice = [](std::vector<int> apart_us, std::size_t more = 0, int more_us = 0) {
    apart_us.resize(apart_us.size() + more, more_us);
    std::string text;
    int start = 1000;
    for (std::size_t i = 0; i <= apart_us.size(); ++i) {
      const std::string id = std::to_string(i + 1);
      text += "call main " + std::to_string(start - 300) + "us 5us cudaLaunchKernel corr=" + id +
              "\nkernel 7 " + std::to_string(start) + "us 20us a corr=" + id + "\n";
      if (i < apart_us.size()) start += apart_us[i];
    }
    return time_slice_of(explain(text).pieces);
  };
  EXPECT_EQ(slice(std::vector<int>(6, 1000)), 1'000'000);
  EXPECT_EQ(slice(std::vector<int>(5, 1000)), 0);
  EXPECT_EQ(slice(std::vector<int>(7, 1000), 2, 1100), 1'000'000);
  EXPECT_EQ(slice(std::vector<int>(7, 1000), 2, 1101), 0);
  EXPECT_EQ(slice(std::vector<int>(8, 1000), 2, 1101), 1'000'000);
}

}  // namespace
}  // namespace rooftile::trace
