#include "rooftile/analysis/trace/host_work.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

TraceSummary recorded_in(const std::string& text) {
  const auto timeline = parse_timeline(text);
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  return summarize(*timeline);
}

// Names of the host's work with their milliseconds, the longest idle time first.
using Work = std::vector<std::pair<std::string, double>>;

Work work_of(const TraceSummary& summary) {
  Work work;
  for (const HostWorkUse& use : summary.host_work) {
    work.emplace_back(use.name, std::round(1e3 * to_milliseconds(use.time)) / 1e3);
  }
  return work;
}

// Between two launches, 30 ms apart.
Work work_between(const std::string& events) {
  return work_of(recorded_in(R"(
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 20us 10us a corr=1
)" + events + R"(
call main 30ms 10us cudaLaunchKernel corr=2
kernel 7 30020us 10us a corr=2
)"));
}

TEST(HostWork, IsAMillisecondOrMoreBetweenLaunches) {
  const auto work = [](int until) {
    return work_of(recorded_in(
        fmt::format("call main 0us 10us cudaLaunchKernel corr=1\nkernel 7 20us 10us a corr=1\n"
                    "call main {}us 10us cudaLaunchKernel corr=2\nkernel 7 {}us 10us a corr=2\n",
                    until, until + 20)));
  };
  EXPECT_TRUE(work(1009).empty());
  EXPECT_EQ(work(1010), (Work{{"", 1}}));
}

// At the bounds of the program's ranges, where both pieces are long; of ranges within another one
// the outer one's.
TEST(HostWork, IsCutAtTheProgramsRanges) {
  EXPECT_EQ(work_between("mark main 5ms 15ms outer\nmark main 8ms 6ms inner"),
            (Work{{"outer", 15}, {"", 14.99}}));
  EXPECT_EQ(work_between("mark main 5ms 12ms first\nmark main 12ms 10ms second"),
            (Work{{"", 17.99}, {"first", 12}}));
  EXPECT_EQ(work_between("mark main 5ms 15ms first\nmark main 20ms 6ms second"),
            (Work{{"first", 15}, {"", 8.99}, {"second", 6}}));
  EXPECT_EQ(work_between("mark main 5ms 1ms short"), (Work{{"", 28.99}, {"short", 1}}));
  EXPECT_EQ(work_between("mark main 5ms 999us short"), (Work{{"", 29.99}}));
  EXPECT_EQ(work_between("mark main 1010us 20ms range"), (Work{{"range", 20}, {"", 9.99}}));
  EXPECT_EQ(work_between("mark main 1009us 20ms range"), (Work{{"range", 20.999}, {"", 8.991}}));
  EXPECT_EQ(work_between("mark main 9ms 20ms range"), (Work{{"range", 20}, {"", 9.99}}));
  EXPECT_EQ(work_between("mark main 9ms 20001us range"), (Work{{"range", 21}, {"", 8.99}}));
  EXPECT_EQ(work_between("mark other 5ms 15ms range"), (Work{{"", 29.99}}));
  EXPECT_EQ(work_between("op main 5ms 15ms aten::sort"), (Work{{"aten::sort", 29.99}}));
}

TEST(HostWork, IsNamedByWhatCoversHalfOfIt) {
  const auto work = [](int length_us) {
    return work_of(recorded_in(fmt::format(R"(
call main 0us 10us cudaLaunchKernel corr=1
kernel 7 20us 10us a corr=1
python main 1ms {}us train.py(9): work
call main 10010us 10us cudaLaunchKernel corr=2
kernel 7 10030us 10us a corr=2
)",
                                           length_us)));
  };
  EXPECT_EQ(work(5000), (Work{{"work", 10}}));
  EXPECT_EQ(work(4999), (Work{{"", 10}}));
}

// Where the thread that launches does nothing, it waits for another one that launches too.
TEST(HostWork, IsNamedByWhatAnotherThreadDoes) {
  const auto work = [](const std::string& events) {
    return work_between(
               "call other 100us 10us cudaLaunchKernel corr=3\n"
               "kernel 7 120us 10us a corr=3\n"
               "python other 1ms 28ms train.py(3): prepare\n" +
               events)
        .at(0)
        .first;
  };
  EXPECT_EQ(work(""), "prepare");
  EXPECT_EQ(work("python main 1ms 28ms train.py(9): wait"), "wait");
}

// An operator that takes more than three times as long does much else.
TEST(HostWork, IsNotNamedByOperatorsAroundMuchElse) {
  const auto first = [](int length_ms) {
    const TraceSummary summary = recorded_in(fmt::format(R"(
python main 0ms 100ms train.py(9): work
op main 0ms {}ms aten::forward
call main 0ms 10us cudaLaunchKernel corr=1
kernel 7 20us 10us a corr=1
call main 30010us 10us cudaLaunchKernel corr=2
kernel 7 30030us 10us a corr=2
call main 30500us 10us cudaLaunchKernel corr=4
kernel 7 30530us 59ms a corr=4
call main 95ms 10us cudaLaunchKernel corr=3
kernel 7 95030us 10us a corr=3
)",
                                                         length_ms));
    return summary.host_work.at(0).name;
  };
  EXPECT_EQ(first(90), "aten::forward");
  EXPECT_EQ(first(91), "work");
}

// What happens inside is a part of it; what comes before it leads to it.
TEST(HostWork, ACompilationHasTheNameOfItsOutermostFunction) {
  EXPECT_EQ(work_between("python main 5ms 20ms torch/_dynamo/convert_frame.py(9): compile_it\n"
                         "python main 8ms 10ms torch/_inductor/compile_fx.py(5): inner_compile"),
            (Work{{"compile_it", 20}, {"", 5}, {"", 4.99}}));
  EXPECT_EQ(work_between("op main 5ms 20ms CompiledFxGraph (dynamo_timed)"),
            (Work{{"CompiledFxGraph (dynamo_timed)", 20}, {"", 5}, {"", 4.99}}));
}

// A function that is 17 of 20 parts of the recording or more is no place.
TEST(HostWork, HasThePlaceOfAFunctionThatIsNotAllThereIs) {
  const auto line = [](int length_ms) {
    const TraceSummary summary = recorded_in(fmt::format(R"(
python main 0ms {}ms train.py(9): work
call main 0ms 10us cudaLaunchKernel corr=1
kernel 7 20us 10us a corr=1
call main 30010us 10us cudaLaunchKernel corr=2
kernel 7 30030us 69970us a corr=2
)",
                                                         length_ms));
    EXPECT_EQ(summary.host_work.at(0).name, "work");
    return summary.host_work.at(0).source.line;
  };
  EXPECT_EQ(line(85), 9);
  EXPECT_EQ(line(86), 0);
}

// 64 names, and one row for the rest.
TEST(HostWork, KeepsSoManyNames) {
  const auto rest = [](int count) {
    std::string text =
        "call main 0us 10us cudaLaunchKernel corr=9000\nkernel 7 20us 10us a corr=9000\n";
    for (int i = 0; i < count; ++i) {
      const int at = 100 + 3000 * i;
      text += fmt::format(
          "mark main {0}us 2500us range{1}\ncall main {2}us 10us cudaLaunchKernel corr={3}\n"
          "kernel 7 {4}us 10us a corr={3}\n",
          at, i, at + 2600, i + 1, at + 2620);
    }
    const TraceSummary summary = recorded_in(text);
    std::int64_t unnamed = 0;
    for (const HostWorkUse& use : summary.host_work) unnamed += use.name.empty() ? use.count : 0;
    EXPECT_EQ(static_cast<std::int64_t>(summary.host_work.size()), count > 64 ? 65 : count);
    return unnamed;
  };
  EXPECT_EQ(rest(64), 0);
  EXPECT_EQ(rest(65), 1);
  EXPECT_EQ(rest(70), 6);
}

// A call to allocate takes a tenth of a second where it sets something up on a GPU that is busy for
// less than a tenth of it.
TEST(HostWork, AllocationsThatTakeFarTooLongAreSetUp) {
  const auto mallocs = [](int length_us, int busy_us, const std::string& call) {
    return recorded_in(fmt::format(R"(
repeat 3 every 1ms
op main 0ms 50us aten::mm
call main 10us 5us cudaLaunchKernel corr=7
kernel 7 20us 10us a corr=7
call main 200us 10us cudaMalloc
end
call main 5ms {}us {}
kernel 7 6ms {}us a
op main 200ms 50us aten::mm
call main 200010us 10us cudaLaunchKernel corr=2
kernel 7 200030us 10us a corr=2
)",
                                   length_us, call, busy_us))
        .allocator.mallocs;
  };
  EXPECT_EQ(mallocs(100'000, 9'900, "cudaMalloc"), 3);
  EXPECT_EQ(mallocs(100'000, 10'000, "cudaMalloc"), 4);
  EXPECT_EQ(mallocs(99'999, 9'000, "cudaMalloc"), 4);
  EXPECT_EQ(mallocs(100'000, 9'000, "cudaMallocHost"), 4);
}

// Four microseconds for each of a thousand nodes are the recorder's.
TEST(HostWork, TheLaunchOfALargeGraphIsTheRecorders) {
  const auto profiler = [](int length_us) {
    std::string text = fmt::format(
        "call main 0us 10us cudaLaunchKernel corr=1\nkernel 7 20us 10us a corr=1\n"
        "call main 1ms {}us cudaGraphLaunch corr=2\n",
        length_us);
    for (int i = 0; i < 1000; ++i)
      text += fmt::format("kernel 7 {}us 1us a corr=2\n", 6000 + 2 * i);
    return recorded_in(text).whole.idle_by_cause.contains(IdleCause::profiler);
  };
  EXPECT_TRUE(profiler(4'000));
  EXPECT_FALSE(profiler(4'001));
}

}  // namespace
}  // namespace rooftile::trace
