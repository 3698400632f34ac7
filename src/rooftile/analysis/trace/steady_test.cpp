#include "rooftile/analysis/trace/steady.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rooftile {
namespace {

TraceSummary window_with(IdleCause cause, double share) {
  TraceSummary trace;
  trace.time.span = Seconds(1);
  trace.time.idle_by_cause[cause] = Seconds(share);
  return trace;
}

TEST(Steady, FirstCallsThatTakeMostOfAWindowAreNoSteadyState) {
  EXPECT_TRUE(is_mostly_set_up(window_with(IdleCause::module_loading, 0.6)));
  EXPECT_FALSE(is_mostly_set_up(window_with(IdleCause::module_loading, 0.4)));
  EXPECT_EQ(steady_span(window_with(IdleCause::start_up, 0.25)), Seconds(0.75));
  EXPECT_EQ(steady_span(window_with(IdleCause::start_up, 0.09)), Seconds(1));
  EXPECT_NEAR(steady_span(window_with(IdleCause::start_up, 0.11)).value(), 0.89, 1e-12);
  EXPECT_FALSE(is_mostly_set_up(window_with(IdleCause::start_up, 0.5)));
}

TEST(Steady, WorkThatStartsLateForAThirdOfTheTimeIsUnexplained) {
  EXPECT_TRUE(is_mostly_unexplained(window_with(IdleCause::unrecorded_work, 0.38)));
  EXPECT_TRUE(is_mostly_unexplained(window_with(IdleCause::unrecorded_work, 0.31)));
  EXPECT_FALSE(is_mostly_unexplained(window_with(IdleCause::unrecorded_work, 0.3)));
  EXPECT_FALSE(is_mostly_unexplained(window_with(IdleCause::module_loading, 0.6)));
  EXPECT_EQ(unexplained_time(window_with(IdleCause::unknown, 0.38)), Seconds(0.38));
}

// Three kernels or more, hardly one of them twice, on a GPU that is idle for most of the time.
TEST(Steady, WhatHardlyRepeatsRunsOnce) {
  const auto once = [](std::vector<std::int64_t> counts, double idle, std::size_t steps = 0) {
    TraceSummary trace;
    trace.time.span = Seconds(1);
    trace.time.idle = Seconds(idle);
    trace.steps.durations.resize(steps);
    for (const std::int64_t count : counts) {
      KernelUse& kernel = trace.orphans.emplace_back();
      kernel.name = "k" + std::to_string(trace.orphans.size());
      kernel.count = count;
    }
    return runs_once(trace);
  };
  EXPECT_TRUE(once({1, 1, 2}, 0.51));
  EXPECT_FALSE(once({1, 2, 2}, 0.51));
  EXPECT_FALSE(once({1, 1, 2}, 0.5));
  EXPECT_FALSE(once({1, 1}, 0.51));
  EXPECT_FALSE(once({1, 1, 2}, 0.51, 1));
}

}  // namespace
}  // namespace rooftile
