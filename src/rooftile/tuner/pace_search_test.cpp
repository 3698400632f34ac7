#include "rooftile/tuner/pace_search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rooftile {
namespace {

// Points that wait for one pace each, all off by the noise to start with where it is 1.
double cost_of(const Paces& paces, double sm, double memory, double points) {
  const double sm_error = std::log(paces.of(Pace::sm_clock) / sm) / 0.12;
  const double memory_error = std::log(paces.of(Pace::memory_clock) / memory) / 0.12;
  return points * (sm_error * sm_error + memory_error * memory_error) / 2;
}

TEST(FindPaces, FindsWhatExplainsThePoints) {
  const Paces found = find_paces([](const Paces& p) { return cost_of(p, 0.5, 0.8, 25); });
  EXPECT_NEAR(std::log(found.of(Pace::sm_clock) / 0.5), 0, 0.06);  // half a step
  EXPECT_NEAR(std::log(found.of(Pace::memory_clock) / 0.8), 0, 0.06);
  EXPECT_EQ(found.of(Pace::power), 1);  // says nothing about the points
  EXPECT_EQ(found.of(Pace::none), 1);
}

TEST(FindPaces, LeavesAGpuThatRunsAsExpectedAlone) {
  const Paces found = find_paces([](const Paces& p) { return cost_of(p, 0.95, 1.02, 25); });
  for (const Pace pace : {Pace::sm_clock, Pace::memory_clock, Pace::power}) {
    EXPECT_EQ(found.of(pace), 1);
  }
}

TEST(FindPaces, FewPointsMoveLittle) {
  const Paces found = find_paces([](const Paces& p) { return cost_of(p, 0.7, 1, 1); });
  EXPECT_EQ(found.of(Pace::sm_clock), 1);
}

}  // namespace
}  // namespace rooftile
