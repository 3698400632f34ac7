#include "rooftile/analysis/trace/windows.h"

#include <gtest/gtest.h>

#include <vector>

namespace rooftile::trace {
namespace {

using Windows = std::vector<Window>;

TEST(Windows, UniteWhatOverlapsOrTouches) {
  EXPECT_EQ(united({{10, 20}, {0, 5}, {15, 18}, {20, 30}, {31, 40}, {7, 7}, {9, 8}}),
            (Windows{{0, 5}, {10, 30}, {31, 40}}));
  EXPECT_EQ(united({}), Windows{});
}

TEST(Windows, WithoutHoles) {
  const Windows windows{{0, 10}, {20, 30}, {40, 50}};
  EXPECT_EQ(without(windows, {}), windows);
  EXPECT_EQ(without(windows, {{10, 20}, {30, 40}}), windows);
  EXPECT_EQ(without(windows, {{0, 3}, {5, 6}, {9, 21}, {25, 45}}),
            (Windows{{3, 5}, {6, 9}, {21, 25}, {45, 50}}));
  EXPECT_EQ(without(windows, {{-5, 60}}), Windows{});
  EXPECT_EQ(without(windows, {{0, 10}}), (Windows{{20, 30}, {40, 50}}));
}

TEST(Windows, InCommon) {
  EXPECT_EQ(common({{0, 10}, {20, 30}}, {{5, 25}, {29, 40}}),
            (Windows{{5, 10}, {20, 25}, {29, 30}}));
  EXPECT_EQ(common({{0, 10}}, {{10, 20}}), Windows{});
}

TEST(Windows, LengthWithinOne) {
  const Windows windows{{0, 10}, {20, 30}};
  EXPECT_EQ(length_within(windows, {0, 30}), 20);
  EXPECT_EQ(length_within(windows, {5, 22}), 7);
  EXPECT_EQ(length_within(windows, {10, 20}), 0);
  EXPECT_EQ(length_within(windows, {12, 18}), 0);
}

}  // namespace
}  // namespace rooftile::trace
