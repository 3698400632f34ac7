#include "rooftile/analysis/trace/critical_path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

CriticalPath path_of(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline).path;
}

// Microseconds by kind, of one step.
using Kinds = std::map<PathKind, double>;

Kinds kinds_of(const CriticalPath& path, std::size_t step = 0) {
  Kinds times;
  for (const PathShare& share : path.steps.at(step).shares) {
    times[share.kind] = std::round(1e3 * to_microseconds(share.time)) / 1e3;
  }
  return times;
}

double time_at(const CriticalPath& path, PathKind kind, const std::string& name) {
  double time = 0;
  for (const PathPart& part : path.parts) {
    if (part.kind == kind && part.name == name) time += to_microseconds(part.time);
  }
  return time;
}

// The host works for 100 us before it launches two kernels, which then run one behind the other.
TEST(CriticalPath, OfKernelsBehindALaunch) {
  const CriticalPath path = path_of(R"(
mark main 0us 200us ProfilerStep#1
op main 0us 110us aten::mm
call main 100us 5us cudaLaunchKernel corr=1
call main 106us 4us cudaLaunchKernel corr=2
kernel 7 110us 40us first corr=1
kernel 7 152us 48us second corr=2
)");
  EXPECT_EQ(kinds_of(path), (Kinds{{PathKind::compute, 88},
                                   {PathKind::pause, 2},
                                   {PathKind::launch, 10},
                                   {PathKind::host, 100}}));
  EXPECT_NEAR(time_at(path, PathKind::host, "aten::mm"), 100, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::compute, "second"), 48, 1e-6);
}

// Programs without operators: a call between two launches has its time, what is between calls none.
TEST(CriticalPath, NamesTheCallsOfAProgramWithoutOperators) {
  const CriticalPath path = path_of(R"(
mark main 0us 200us ProfilerStep#1
call main 10us 5us cudaLaunchKernel corr=1
kernel 7 15us 10us first corr=1
call main 20us 60us cudaEventRecord
call main 100us 5us cudaLaunchKernel corr=2
kernel 7 105us 95us second corr=2
)");
  EXPECT_NEAR(time_at(path, PathKind::host, "cudaEventRecord"), 60, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::host, ""), 10 + 5 + 20, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::launch, "cudaLaunchKernel"), 5 + 5, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::compute, "second"), 95, 1e-6);
}

// What passes before an operator begins is not its time; a range around tells more than nothing.
TEST(CriticalPath, AnOperatorHasNoMoreThanItsOwnTime) {
  const CriticalPath path = path_of(R"(
mark main 0us 1360us program
op main 0us 10us aten::relu
call main 2us 5us cudaLaunchKernel corr=1
kernel 7 10us 5us first corr=1
mark main 300us 250us decode
op main 400us 100us aten::mm
call main 490us 5us cudaLaunchKernel corr=2
kernel 7 500us 50us second corr=2
call main 1300us 5us cudaLaunchKernel corr=3
kernel 7 1310us 50us third corr=3
)");
  EXPECT_NEAR(time_at(path, PathKind::host, "aten::mm"), 100, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::host, "decode"), 100, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::host, "aten::relu"), 10, 1e-6);
  EXPECT_NEAR(time_at(path, PathKind::host, ""), 290 + 800, 1e-6);
}

// A kernel waits for a collective on another stream, and this one for the kernel before it. What
// runs beside the collective is not on the path.
TEST(CriticalPath, CrossesStreams) {
  const CriticalPath path = path_of(R"(
mark main 0us 500us ProfilerStep#1
op main 0us 40us aten::mm
call main 0us 5us cudaLaunchKernel corr=1
call main 6us 5us cudaLaunchKernel corr=2
call main 12us 5us cudaLaunchKernel corr=3
call main 18us 5us cudaLaunchKernel corr=4
kernel 7 10us 90us first corr=1
kernel 20 101us 300us ncclDevKernel_AllReduce corr=2
kernel 7 101us 100us beside corr=3
kernel 7 402us 98us last corr=4
)");
  EXPECT_EQ(kinds_of(path), (Kinds{{PathKind::communication, 300},
                                   {PathKind::compute, 188},
                                   {PathKind::launch, 10},
                                   {PathKind::pause, 2}}));
  EXPECT_NEAR(time_at(path, PathKind::compute, "beside"), 0, 1e-6);
}

// Within 100 us of the one before it on its stream a kernel waited for that one, whatever ran
// beside it; after more, for what ran on another stream.
TEST(CriticalPath, GoesBackOnTheStreamUnlessTheGpuWasAtWorkOnAnother) {
  const auto path = [](int beside, int last) {
    return path_of(
        "op main 0us 40us aten::mm\n"
        "call main 0us 5us cudaLaunchKernel corr=1\n"
        "call main 6us 5us cudaLaunchKernel corr=2\n"
        "call main 12us 5us cudaLaunchKernel corr=3\n"
        "kernel 7 10us 90us first corr=1\nkernel 9 20us " +
        std::to_string(beside) + "us beside corr=2\nkernel 7 " + std::to_string(last) +
        "us 98us last corr=3\n");
  };
  struct Case {
    int beside, last;
    double first_us, beside_us, pause_us, unrecorded_us;
  };
  for (const Case& c :
       {Case{81, 103, 90, 0, 3, 0}, Case{81, 200, 90, 0, 100, 0}, Case{81, 201, 0, 81, 100, 0},
        Case{180, 203, 0, 180, 3, 0}, Case{50, 201, 90, 0, 0, 101}}) {
    const CriticalPath found = path(c.beside, c.last);
    EXPECT_NEAR(time_at(found, PathKind::compute, "last"), 98, 1e-6);
    EXPECT_NEAR(time_at(found, PathKind::compute, "first"), c.first_us, 1e-6);
    EXPECT_NEAR(time_at(found, PathKind::compute, "beside"), c.beside_us, 1e-6);
    EXPECT_NEAR(time_at(found, PathKind::pause, ""), c.pause_us, 1e-6);
    EXPECT_NEAR(time_at(found, PathKind::unrecorded, ""), c.unrecorded_us, 1e-6);
  }
}

// The host reads a result, then launches the next kernel: the wait leads to what it waited for.
TEST(CriticalPath, GoesThroughWaitsOfTheHost) {
  const CriticalPath path = path_of(R"(
mark main 0us 400us ProfilerStep#1
op main 0us 300us aten::mm
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 190us first corr=1
call main 20us 185us cudaStreamSynchronize
call main 250us 5us cudaLaunchKernel corr=2
kernel 7 260us 140us second corr=2
)");
  // The call returns 5 us late, and 45 us of work follow.
  EXPECT_EQ(kinds_of(path),
            (Kinds{{PathKind::compute, 330}, {PathKind::launch, 20}, {PathKind::host, 50}}));
  EXPECT_NEAR(time_at(path, PathKind::host, "cudaStreamSynchronize"), 5, 1e-6);
}

// The recorder waits at its end for what the program has launched.
TEST(CriticalPath, GoesThroughTheWaitOfTheRecorder) {
  const CriticalPath path = path_of(R"(
op main 0us 10us aten::mm
python main 20us 500us torch/profiler/profiler.py(700): stop
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us 400us first corr=1
call main 30us 385us cudaDeviceSynchronize
)");
  const auto kinds = kinds_of(path);
  EXPECT_NEAR(kinds.at(PathKind::compute), 400, 1e-6);
}

TEST(CriticalPath, NamesTheLoaderAndTheLineOfTheHost) {
  const CriticalPath path = path_of(R"(
repeat 2 every 1ms
mark main 0us 1ms ProfilerStep#{i}
mark main 0us 600us enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
python main 600us 400us train.py(12): forward
call main 800us 5us cudaLaunchKernel corr=1
kernel 7 810us 190us gemm corr=1
end
)");
  ASSERT_EQ(path.steps.size(), 2U);
  for (const std::size_t step : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(kinds_of(path, step), (Kinds{{PathKind::data_loading, 600},
                                           {PathKind::host, 200},
                                           {PathKind::launch, 10},
                                           {PathKind::compute, 190}}));
  }
  bool is_named = false;
  for (const PathPart& part : path.parts) {
    is_named = is_named || (part.kind == PathKind::host && part.source.line == 12);
  }
  EXPECT_TRUE(is_named);
}

// The host waits for the other ranks before it launches.
TEST(CriticalPath, GoesThroughABarrier) {
  const CriticalPath path = path_of(R"(
mark main 0us 300us ProfilerStep#1
op main 0us 150us c10d::barrier
call main 160us 5us cudaLaunchKernel corr=1
kernel 7 170us 130us first corr=1
)");
  EXPECT_EQ(kinds_of(path), (Kinds{{PathKind::communication_wait, 150},
                                   {PathKind::host, 10},
                                   {PathKind::launch, 10},
                                   {PathKind::compute, 130}}));
  EXPECT_NEAR(time_at(path, PathKind::communication_wait, "c10d::barrier"), 150, 1e-6);
}

// The first launch of a kernel loads it.
TEST(CriticalPath, GoesThroughWhatALaunchLoads) {
  const CriticalPath path = path_of(R"(
mark main 0us 10ms ProfilerStep#1
call main 100us 5ms cudaLaunchKernel corr=1
call main 5200us 5us cudaLaunchKernel corr=2
kernel 7 5110us 2ms a corr=1
kernel 7 7111us 2889us a corr=2
)");
  EXPECT_EQ(kinds_of(path), (Kinds{{PathKind::host, 100},
                                   {PathKind::module_loading, 5000},
                                   {PathKind::launch, 10},
                                   {PathKind::compute, 4889},
                                   {PathKind::pause, 1}}));
}

// The host waits for nothing: 9 of 10 us are an operator's, before and after its launch. The walk
// from the end meets 66,000 stretches before those of the first hundred rounds.
TEST(CriticalPath, KeepsTheNamesOfALongRecording) {
  const CriticalPath path = path_of(R"(
mark main 0us 332ms ProfilerStep#1
repeat 100 every 10us
op main 0us 9us aten::add
call main 7us 1us cudaLaunchKernel corr=1
kernel 7 8500ns 500ns k corr=1
end
repeat 33000 every 10us
op main 1ms 9us aten::mm
call main 1007us 1us cudaLaunchKernel corr=2
kernel 7 1008500ns 500ns k corr=2
end
)");
  EXPECT_NEAR(time_at(path, PathKind::host, "aten::add"), 100 * 9, 10);
  EXPECT_NEAR(time_at(path, PathKind::host, "aten::mm"), 33'000 * 9, 10);
}

TEST(CriticalPath, NeedsCallsAndWork) {
  EXPECT_TRUE(path_of("kernel 7 0us 10us a\n").steps.empty());
  EXPECT_TRUE(path_of("op main 0us 10us aten::mm\n").steps.empty());
}

}  // namespace
}  // namespace rooftile::trace
