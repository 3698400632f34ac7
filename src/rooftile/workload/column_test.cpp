#include "rooftile/workload/column.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace rooftile {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Column, KeepsZerosWithoutMemoryAndTakesChanges) {
  Column<std::uint32_t> column;
  for (int i = 0; i < 40'000; ++i) column.push_back(0);
  for (std::uint32_t i = 0; i < 40'000; ++i) column.push_back(i);
  column.push_back(0);
  ASSERT_EQ(column.size(), 80'001U);
  EXPECT_EQ(column[0], 0U);
  EXPECT_EQ(column[39'999], 0U);
  EXPECT_EQ(column[79'999], 39'999U);
  column.at(7) = 5;
  EXPECT_EQ(column[7], 5U);
  EXPECT_EQ(column[8], 0U);
}

template <bool grouped>
void expect_kept(const std::vector<std::int64_t>& values) {
  CompactColumn<grouped> column;
  for (const std::int64_t value : values) column.push_back(value);
  ASSERT_EQ(column.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(column[i], values[i]) << i;
}

TEST(CompactColumn, KeepsAnyValue) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  std::vector<std::int64_t> values{0,      -1,        kMost,      kLeast,     kHalf,    kHalf - 1,
                                   -kHalf, kHalf + 1, -kHalf - 1, -kHalf + 1, 1 - kMost};
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
  }
  expect_kept<true>(values);
  expect_kept<false>(values);
  values.insert(values.begin(), kMost);
  expect_kept<true>(values);
  values.front() = kLeast;
  expect_kept<true>(values);
}

}  // namespace
}  // namespace rooftile
