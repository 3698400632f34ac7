#include "rooftile/tuner/width_search.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

std::optional<Range<Seconds>> same(std::int64_t) {
  return Range<Seconds>{Seconds(1), Seconds(1), Seconds(1)};
}

// Saves most at one width.
SavingAt best_at(std::int64_t best) {
  return [best](std::int64_t width) -> std::optional<Range<Seconds>> {
    const Seconds saving(width == best ? 2 : 1);
    return Range<Seconds>{saving, saving, saving};
  };
}

TEST(ChoosePaddedWidth, PrefersAMultipleOf64WhereItIsNear) {
  EXPECT_EQ(choose_padded_width(50257, 8, same), 50304);
  EXPECT_EQ(choose_padded_width(10922, 8, same), 10944);
}

TEST(ChoosePaddedWidth, ElseTheNextAlignedWidth) {
  EXPECT_EQ(choose_padded_width(588, 8, same), 592);
  EXPECT_EQ(choose_padded_width(197, 8, same), 200);
}

TEST(ChoosePaddedWidth, TakesTheFastest) {
  EXPECT_EQ(choose_padded_width(588, 8, best_at(640)), 640);
  EXPECT_EQ(choose_padded_width(588, 8, best_at(608)), 608);
}

TEST(ChoosePaddedWidth, WithoutAModel) {
  const auto unknown = [](std::int64_t) { return std::optional<Range<Seconds>>(); };
  EXPECT_EQ(choose_padded_width(50257, 8, unknown), 50304);
}

TEST(ChoosePaddedWidth, KeepsTheStep) { EXPECT_EQ(choose_padded_width(4100, 16, same), 4112); }

}  // namespace
}  // namespace rooftile
