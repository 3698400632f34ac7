#include "rooftile/analysis/trace/steady.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(steady_span(window_with(IdleCause::start_up, 0.05)), Seconds(1));
}

TEST(Steady, WorkThatStartsLateForAThirdOfTheTimeIsUnexplained) {
  EXPECT_TRUE(is_mostly_unexplained(window_with(IdleCause::unrecorded_work, 0.38)));
  EXPECT_FALSE(is_mostly_unexplained(window_with(IdleCause::unrecorded_work, 0.2)));
  EXPECT_FALSE(is_mostly_unexplained(window_with(IdleCause::module_loading, 0.6)));
  EXPECT_EQ(unexplained_time(window_with(IdleCause::unknown, 0.38)), Seconds(0.38));
}

}  // namespace
}  // namespace rooftile
