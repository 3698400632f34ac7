#include "rooftile/analysis/trace/waits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

using Causes = std::map<IdleCause, double>;

// Idle microseconds of the recording by their causes.
Causes causes_in(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  Causes causes;
  for (const auto& [cause, time] : summarize(*timeline).whole.idle_by_cause) {
    causes[cause] = std::round(1e3 * to_microseconds(time)) / 1e3;
  }
  return causes;
}

// A thread was in no call for a millisecond, and the GPU ended work 100 us before at the most.
TEST(Waits, EndWhereElapsedTimeIsKnown) {
  const auto waits = [](int asked, int work_until, const std::string& op = "") {
    const auto timeline =
        parse_timeline(fmt::format(R"(
call main 0us 5us cudaLaunchKernel corr=1
kernel 7 10us {}us a corr=1
{}
call main {}us 5us cudaEventElapsedTime
call main {}us 5us cudaLaunchKernel corr=2
kernel 7 {}us 5us a corr=2
)",
                                   work_until - 10, op, asked, asked + 100, asked + 110));
    EXPECT_TRUE(timeline) << to_string(timeline.error());
    const Links links = link_events(*timeline);
    const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
    std::vector<Window> found;
    for (const HostWait& wait : find_waits(*timeline, links, track)) {
      if (wait.cause == IdleCause::synchronization) found.push_back({wait.start, wait.end});
    }
    return found;
  };
  using Found = std::vector<Window>;
  EXPECT_EQ(waits(2000, 1900), (Found{{5'000, 2'000'000}}));
  EXPECT_EQ(waits(2000, 1899), Found{});
  EXPECT_EQ(waits(1005, 950), (Found{{5'000, 1'005'000}}));
  EXPECT_EQ(waits(1004, 950), Found{});
  EXPECT_EQ(waits(2000, 1950, "op main 900us 100us aten::add"), (Found{{1'000'000, 2'000'000}}));
  EXPECT_EQ(waits(2000, 1950, "op main 900us 101us aten::add"), Found{});
}

// Five launches of so many microseconds, then 300 us of overhead from 200 us on.
Causes with_overhead(const std::string& name, int usual, int launch, int length) {
  std::string text;
  for (int i = 0; i < 5; ++i) {
    text += fmt::format(
        "call main {0}us {1}us cudaLaunchKernel corr={2}\nkernel 7 {3}us 5us a corr={2}\n", 20 * i,
        usual, i + 1, 20 * i + 8);
  }
  return causes_in(text + fmt::format("overhead 200us 300us {}\n"
                                      "call main {}us {}us cudaLaunchKernel corr=9\n"
                                      "kernel 7 {}us 5us a corr=9\n",
                                      name, launch, length, launch + length + 10));
}

TEST(Waits, OverheadIsTheRecordersOrCudasLoading) {
  for (const char* name : {"Buffer Flush", "Activity Buffer Request", "Instrumentation", "Resource",
                           "Initialization", "Chunk Allocation", "TLS Allocation", "Profiling"}) {
    EXPECT_EQ(
        with_overhead(name, 5, 600, 5),
        (Causes{{IdleCause::launch, 55}, {IdleCause::host_work, 235}, {IdleCause::profiler, 300}}))
        << name;
  }
  for (const char* name : {"Module Loading", "Lazy Function Loading", "Driver Compiler"}) {
    EXPECT_EQ(with_overhead(name, 5, 600, 5), (Causes{{IdleCause::launch, 55},
                                                      {IdleCause::host_work, 235},
                                                      {IdleCause::module_loading, 300}}))
        << name;
  }
  EXPECT_EQ(with_overhead("Command Buffer Full", 5, 600, 5),
            (Causes{{IdleCause::launch, 55}, {IdleCause::host_work, 535}}));
  // A launch is called meanwhile.
  EXPECT_EQ(with_overhead("Buffer Flush", 5, 500, 5).at(IdleCause::profiler), 300);
  EXPECT_FALSE(with_overhead("Buffer Flush", 5, 499, 5).contains(IdleCause::profiler));
}

// Within a millisecond behind it, of 100 us or more, and more than twenty times as long as usual.
TEST(Waits, TheRecorderGoesOnInALongLaunch) {
  const auto profiler = [](int usual, int launch, int length) {
    return with_overhead("Buffer Flush", usual, launch, length).at(IdleCause::profiler);
  };
  EXPECT_EQ(profiler(5, 600, 101), 401);
  EXPECT_EQ(profiler(5, 600, 100), 300);
  EXPECT_EQ(profiler(4, 600, 100), 400);
  EXPECT_EQ(profiler(4, 600, 99), 300);
  EXPECT_EQ(profiler(5, 1499, 200), 500);
  EXPECT_EQ(profiler(5, 1500, 200), 300);
}

// From a wait for the device on, with a launch a millisecond before at the most.
TEST(Waits, RecordingAGraphBeginsWithTheWaitForTheDevice) {
  const auto loading = [](int begun, const std::string& events) {
    return causes_in("call main 0us 5us cudaLaunchKernel corr=1\nkernel 7 10us 10us a corr=1\n" +
                     events +
                     fmt::format("call main {}us 5us cudaStreamBeginCapture\n"
                                 "call main {}us 5us cudaStreamEndCapture\n"
                                 "call main {}us 5us cudaLaunchKernel corr=2\n"
                                 "kernel 7 {}us 5us a corr=2\n",
                                 begun, begun + 400, begun + 500, begun + 510))
        .at(IdleCause::module_loading);
  };
  const std::string wait = "call main 30us 10us cudaDeviceSynchronize\n";
  const std::string launch =
      "call main 100us 5us cudaLaunchKernel corr=5\nkernel 7 110us 5us a corr=5\n";
  EXPECT_EQ(loading(300, ""), 405);
  EXPECT_EQ(loading(300, wait), 665);
  EXPECT_EQ(loading(1099, wait + launch), 1464 - 15);
  EXPECT_EQ(loading(1100, wait + launch), 405);
}

}  // namespace
}  // namespace rooftile::trace
