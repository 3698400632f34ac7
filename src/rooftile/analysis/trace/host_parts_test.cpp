#include "rooftile/analysis/trace/host_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "rooftile/analysis/trace/summarize.h"
#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

using Causes = std::map<IdleCause, double>;

// Idle microseconds between the kernels of two launches so many microseconds apart.
Causes idle_between(int apart_us, const std::string& kernel, const std::string& events) {
  const auto timeline = parse_timeline(fmt::format(R"(
call main 0us 4us cudaLaunchKernel corr=1
kernel 7 10us 5us {0} corr=1
{1}
call main {2}us 4us cudaLaunchKernel corr=2
kernel 7 {3}us 5us {0} corr=2
)",
                                                   kernel, events, 4 + apart_us, 14 + apart_us));
  EXPECT_TRUE(timeline) << to_string(timeline.error());
  Causes causes;
  for (const auto& [cause, time] : summarize(*timeline).time.idle_by_cause) {
    causes[cause] = std::round(1e3 * to_microseconds(time)) / 1e3;
  }
  return causes;
}

constexpr const char* kOperator = "op main 0us 4us aten::add\n";

// Ten microseconds at either end are launching: up to the first kernel's start, and of the second.
TEST(HostParts, LongPausesBetweenCallsAreNoLaunching) {
  EXPECT_EQ(idle_between(6, "a", ""), (Causes{{IdleCause::launch, 15}}));
  EXPECT_EQ(idle_between(100, "a", ""),
            (Causes{{IdleCause::launch, 20}, {IdleCause::host_work, 89}}));
}

// The Python code between two operators takes up to 200 us, more where it is recorded.
TEST(HostParts, AFrameworkTakesLongerBetweenOperators) {
  const Causes launching{{IdleCause::launch, 209}};
  const Causes other{{IdleCause::launch, 20}, {IdleCause::host_work, 190}};
  EXPECT_EQ(idle_between(200, "a", kOperator), launching);
  EXPECT_EQ(idle_between(201, "a", kOperator), other);
  for (const char* kernel : {"void at::native::f<1>()", "_ZN2at6native1fE"}) {
    EXPECT_EQ(idle_between(200, kernel, ""), launching);
    EXPECT_EQ(idle_between(201, kernel, ""), other);
  }
  EXPECT_EQ(idle_between(201, "a", "python main 150us 1us torch/x.py(1): f"),
            (Causes{{IdleCause::launch, 210}}));
}

TEST(HostParts, OperatorsThatComputeOnTheHostAndCopiesAreNoLaunching) {
  const Causes launching{{IdleCause::launch, 159}};
  const auto with = [](const std::string& event) {
    return idle_between(150, "a", kOperator + event);
  };
  EXPECT_EQ(with("op main 20us 100us aten::sort"),
            (Causes{{IdleCause::launch, 59}, {IdleCause::host_work, 100}}));
  EXPECT_EQ(with("op main 20us 99us aten::sort"), launching);
  EXPECT_EQ(with("op other 20us 100us aten::sort"), launching);
  EXPECT_EQ(with("op main 20us 130us aten::mm\nop main 21us 120us aten::addmm\n"
                 "call main 130us 2us cudaEventRecord"),
            launching);
  EXPECT_EQ(with("call main 20us 100us cudaMemcpyAsync"),
            (Causes{{IdleCause::launch, 59}, {IdleCause::copy, 100}}));
  EXPECT_EQ(with("call main 20us 100us cudaMemsetAsync"), launching);
}

}  // namespace
}  // namespace rooftile::trace
