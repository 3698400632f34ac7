#include "rooftile/base/lazy.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Lazy, MakesItsValueOnceAndOnlyWhenAsked) {
  int made = 0;
  const Lazy<int> lazy([&]() -> std::optional<int> { return ++made; });
  EXPECT_EQ(made, 0);
  ASSERT_TRUE(lazy.get());
  EXPECT_EQ(*lazy.get(), 1);
  EXPECT_EQ(made, 1);
}

TEST(Lazy, ThereMayBeNone) {
  int asked = 0;
  const Lazy<int> lazy([&]() -> std::optional<int> { return ++asked, std::nullopt; });
  EXPECT_FALSE(lazy.get());
  EXPECT_FALSE(lazy.get());
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace rooftile
