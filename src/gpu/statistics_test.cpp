#include "gpu/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace rooftile::gpu {
namespace {

std::vector<Seconds> seconds(std::initializer_list<double> values) {
  std::vector<Seconds> times;
  for (const double value : values) times.emplace_back(value);
  return times;
}

TEST(Summarize, MedianAndItsDeviationIgnoreOutliers) {
  const Summary summary = summarize(seconds({1, 2, 3, 4, 100}));
  EXPECT_EQ(summary.median, Seconds(3));
  EXPECT_EQ(summary.mad, Seconds(1));
  EXPECT_EQ(summary.repeats, 5U);
  EXPECT_DOUBLE_EQ(summary.p10.value(), 1.4);
}

TEST(Summarize, EvenCountsTakeTheMiddle) {
  EXPECT_EQ(summarize(seconds({4, 1})).median, Seconds(2.5));
  EXPECT_EQ(summarize(seconds({7})).median, Seconds(7));
}

TEST(Summarize, UncertaintyShrinksWithTheSquareRoot) {
  const double of_four = summarize(seconds({9, 10, 10, 11})).uncertainty;
  const double of_sixteen =
      summarize(seconds({9, 10, 10, 11, 9, 10, 10, 11, 9, 10, 10, 11, 9, 10, 10, 11})).uncertainty;
  EXPECT_DOUBLE_EQ(of_four, 2 * of_sixteen);
  // Half a unit of MAD: 1.645 * 1.2533 * 1.4826 * 0.5 / 2 / 10.
  EXPECT_NEAR(of_four, 0.0764, 1e-3);
}

// Runs that take one second each of a clock of their own.
struct Runs {
  std::vector<double> times;
  std::size_t next = 0;
  Seconds now;

  Result<Seconds> run() {
    now += Seconds(1);
    return Seconds(times[next++ % times.size()]);
  }
  Result<Summary> repeat_until(const StopRule& rule) {
    return repeat([this] { return run(); }, rule, [this] { return now; });
  }
};

TEST(Repeat, StopsWhenTheMedianIsKnown) {
  Runs steady{{5}, 0, {}};
  EXPECT_EQ(steady.repeat_until({7, 60, 0.005, Seconds(1e6)})->repeats, 7U);
}

TEST(Repeat, NoisyRunsGoOnToTheLimit) {
  Runs noisy{{1, 2, 3, 4, 5}, 0, {}};
  EXPECT_EQ(noisy.repeat_until({7, 60, 0.005, Seconds(1e6)})->repeats, 60U);
  Runs slow{{1, 2, 3, 4, 5}, 0, {}};
  EXPECT_EQ(slow.repeat_until({7, 60, 0.005, Seconds(3)})->repeats, 3U);
}

TEST(Repeat, AnErrorEndsIt) {
  const auto result = repeat([]() -> Result<Seconds> { return fail("lost"); }, {}, steady_clock());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "lost");
}

}  // namespace
}  // namespace rooftile::gpu
