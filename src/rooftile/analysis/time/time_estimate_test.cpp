// Sums, multiples and differences of estimates, by hand.
#include "rooftile/analysis/time/time_estimate.h"

#include <gtest/gtest.h>

#include "rooftile/analysis/time/time_model.h"

namespace rooftile {
namespace {

constexpr Range<double> kNoEffects{1, 1, 1};

Range<Seconds> range(double low, double expected, double high) {
  return {Seconds(low), Seconds(expected), Seconds(high)};
}

void expect_range(const Range<Seconds>& time, const Range<Seconds>& expected, const char* name) {
  EXPECT_NEAR(time.low.value(), expected.low.value(), 1e-9) << name;
  EXPECT_NEAR(time.expected.value(), expected.expected.value(), 1e-9) << name;
  EXPECT_NEAR(time.high.value(), expected.high.value(), 1e-9) << name;
}

TimeEstimate short_one() {
  TimeEstimate estimate;
  estimate.time = range(1, 2, 3);
  estimate.bound = Bound::latency;
  estimate.kernels = Kernels::streaming;
  estimate.learned = 1.25;
  estimate.floor = Seconds(0.5);
  estimate.conversions = range(0.1, 0.2, 0.3);
  estimate.own_effects = {0.8, 1, 1.2};
  estimate.launch = Seconds(0.3), estimate.compute = Seconds(0.4);
  estimate.memory = Seconds(0.5), estimate.power = Seconds(0.6);
  return estimate;
}

TimeEstimate long_one() {
  TimeEstimate estimate;
  estimate.time = range(4, 6, 8);
  estimate.bound = Bound::math;
  estimate.kernels = Kernels::convolution;
  estimate.floor = Seconds(3);
  estimate.conversions = range(1, 2, 3);
  estimate.own_effects = {0.9, 1, 1.4};
  estimate.unshared = 0.5;
  estimate.winograd = true;
  estimate.split_k = 4;
  estimate.grid = tile_grid(256, 256, 1, {128, 64}, 4);
  estimate.launch = Seconds(1), estimate.compute = Seconds(2);
  estimate.memory = Seconds(3), estimate.power = Seconds(4);
  return estimate;
}

// The longer one, three quarters of the sum, says what it waits for; effects count by their shares.
TEST(TimeEstimate, SumsAddTimesAndParts) {
  for (const TimeEstimate& sum : {short_one() + long_one(), long_one() + short_one()}) {
    expect_range(sum.time, range(5, 8, 11), "time");
    expect_range(sum.conversions, range(1.1, 2.2, 3.3), "conversions");
    EXPECT_DOUBLE_EQ(sum.learned, 8 / (2 / 1.25 + 6));
    EXPECT_EQ(sum.bound, Bound::math);
    EXPECT_EQ(sum.kernels, Kernels::convolution);
    EXPECT_EQ(sum.floor, Seconds(3.5));
    EXPECT_TRUE(sum.winograd);
    EXPECT_DOUBLE_EQ(sum.launch.value(), 1.3);
    EXPECT_DOUBLE_EQ(sum.compute.value(), 2.4);
    EXPECT_DOUBLE_EQ(sum.memory.value(), 3.5);
    EXPECT_DOUBLE_EQ(sum.power.value(), 4.6);
    EXPECT_DOUBLE_EQ(sum.own_effects.low, 0.25 * 0.8 + 0.75 * 0.9);
    EXPECT_DOUBLE_EQ(sum.own_effects.expected, 1);
    EXPECT_DOUBLE_EQ(sum.own_effects.high, 0.25 * 1.2 + 0.75 * 1.4);
    EXPECT_DOUBLE_EQ(sum.unshared, 0.25 + 0.75 * 0.5);
    EXPECT_EQ(sum.split_k, 4);
    ASSERT_TRUE(sum.grid);
    EXPECT_EQ(sum.grid->tile, (Tile{128, 64}));
  }
}

TEST(TimeEstimate, TheFirstOfEqualsCounts) {
  TimeEstimate second = short_one();
  second.bound = Bound::memory;
  second.grid = tile_grid(256, 256, 1, {64, 64}, 4);
  second.split_k = 2;
  EXPECT_EQ((short_one() + second).bound, Bound::latency);
  EXPECT_EQ((second + long_one()).grid->tile, (Tile{64, 64}));
  EXPECT_EQ((second + long_one()).split_k, 2);
  const TimeEstimate nothing = TimeEstimate{} + TimeEstimate{};
  EXPECT_EQ(nothing.learned, 1);
  EXPECT_EQ(nothing.unshared, 1);
}

TEST(TimeEstimate, MultiplesAreOfTimesAndParts) {
  const TimeEstimate three = long_one() * 3;
  expect_range(three.time, range(12, 18, 24), "time");
  expect_range(three.conversions, range(3, 6, 9), "conversions");
  EXPECT_EQ(three.floor, Seconds(9));
  EXPECT_EQ(three.launch, Seconds(3));
  EXPECT_EQ(three.compute, Seconds(6));
  EXPECT_EQ(three.memory, Seconds(9));
  EXPECT_EQ(three.power, Seconds(12));
  EXPECT_EQ(three.unshared, 0.5);
}

struct Side {
  Range<Seconds> time;
  Range<double> own_effects = kNoEffects;
  double learned = 1, unshared = 1, floor = 0;
  Range<Seconds> conversions{};
  Bound bound = Bound::math;
  Kernels kernels = Kernels::convolution;
};

TimeEstimate estimate_of(const Side& side) {
  TimeEstimate estimate;
  estimate.time = side.time;
  estimate.own_effects = side.own_effects;
  estimate.learned = side.learned;
  estimate.unshared = side.unshared;
  estimate.floor = Seconds(side.floor);
  estimate.conversions = side.conversions;
  estimate.bound = side.bound;
  estimate.kernels = side.kernels;
  return estimate;
}

// docs/time_model.md, "Savings", of 1 s to 0.6 s: with the half widths in log of both ranges,
// ln(1.12 / 0.9) / 2 and ln(1.1 / 0.9333) / 2, the ratio 0.6 lies within a factor of
// e^(0.8 * sqrt(0.1093^2 + 0.0822^2)) = 1.1155; what is saved then has the error of the first time.
TEST(Saving, RangesByHand) {
  struct Case {
    const char* name;
    Side before, after;
    Range<Seconds> saving;
  };
  const Range<Seconds> one = range(0.9, 1, 1.12), less = range(0.56, 0.6, 0.66);
  const Range<Seconds> with_conversions = range(1, 1.2, 1.4), conversions = range(0.1, 0.2, 0.3);
  const Case cases[] = {
      {"as it is", {one}, {less}, range(0.297563386, 0.4, 0.517646173)},
      {"another bound",
       {one},
       {.time = less, .bound = Bound::memory},
       range(0.289267462, 0.4, 0.525828284)},
      {"half of it shared",
       {.time = one, .unshared = 0.5},
       {.time = less, .unshared = 0.5},
       range(0.329635405, 0.4, 0.483775376)},
      {"but not with other kernels",
       {.time = one, .unshared = 0.5},
       {.time = less, .unshared = 0.5, .kernels = Kernels::attention},
       range(0.297563386, 0.4, 0.517646173)},
      {"an effect of the second",
       {one},
       {.time = range(0.504, 0.6, 0.792), .own_effects = {0.9, 1, 1.2}},
       range(0.177076063, 0.4, 0.577881555)},
      {"an effect of the first",
       {.time = range(0.81, 1, 1.344), .own_effects = {0.9, 1, 1.2}},
       {less},
       range(0.230625985, 0.4, 0.618038477)},
      {"a slow first by measurements alone",
       {.time = one, .learned = 1.1},
       {less},
       range(0.237319725, 0.4, 0.517646173)},
      {"a slow second by measurements alone",
       {one},
       {.time = less, .learned = 1.25},
       range(0.297563386, 0.4, 0.56)},
      {"a floor", {one}, {.time = less, .floor = 0.59}, range(0.297563386, 0.4, 0.41)},
      {"a floor above the time", {one}, {.time = less, .floor = 0.7}, range(0.297563386, 0.4, 0.4)},
      {"conversions",
       {.time = with_conversions, .conversions = conversions},
       {less},
       range(0.400970691, 0.6, 0.805037458)},
      {"conversions and an effect of the rest",
       {.time = with_conversions, .own_effects = {0.95, 1, 1.1}, .conversions = conversions},
       {.time = range(0.6, 0.7, 0.8), .conversions = range(0.05, 0.1, 0.2)},
       range(0.372063192, 0.5, 0.584729513)},
      {"more time", {less}, {one}, range(-0.56, -0.4, -0.276602538)},
      {"nothing left", {one}, {range(0, 0, 0)}, range(0.9, 1, 1)},
      {"ranges that do not touch",
       {one},
       {range(0.1, 0.2, 0.3)},
       range(0.618249024, 0.8, 0.976894906)},
      {"vague times", {range(0.5, 1, 2)}, {range(0.45, 0.9, 1.8)}, range(-1.3, 0.1, 1)},
      {"the same", {one}, {one}, range(0, 0, 0)},
  };
  for (const Case& c : cases) {
    expect_range(estimate_saving(estimate_of(c.before), estimate_of(c.after)), c.saving, c.name);
  }
}

}  // namespace
}  // namespace rooftile
