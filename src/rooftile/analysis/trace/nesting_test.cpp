#include "rooftile/analysis/trace/nesting.h"

#include <gtest/gtest.h>

#include <random>

namespace rooftile::trace {
namespace {

struct Row {
  Nanoseconds start, duration;
  std::uint16_t thread = 0;
};

struct Table {
  EventTimes time;
  Column<std::uint16_t> thread;

  explicit Table(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      time.push_back(row.start, row.duration);
      thread.push_back(row.thread);
    }
  }
  ThreadRows order() const { return rows_by_thread(time, thread); }
};

TEST(Nesting, OrdersByThreadThenStartThenLength) {
  const Table table({{5, 1, 1}, {3, 2}, {0, 4}, {0, 10}, {2, 9, 1}});
  const ThreadRows order = table.order();
  ASSERT_EQ(order.threads(), 2U);
  EXPECT_EQ(order.rows, (std::vector<std::uint32_t>{3, 2, 1, 4, 0}));
  EXPECT_TRUE(order.of(7).empty());
}

TEST(Nesting, FindsParents) {
  //               0-100     10-40      20-30      40-50    50-50    90-120 sticks out
  const Table table({{0, 100}, {10, 30}, {20, 10}, {40, 10}, {50, 0}, {90, 15}, {98, 40}});
  EXPECT_EQ(parents_of(table.time, table.order()),
            (std::vector<std::uint32_t>{kNone, 0, 1, 0, 0, 0, kNone}));
}

// EventTimes that nest: each is cut out of one before it. The smallest that contains is the parent.
TEST(Nesting, AgreesWithASearchThroughAll) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Row> rows{{0, 1'000'000}};
    std::vector<Nanoseconds> free_from{0};
    for (int i = 0; i < 60; ++i) {
      const std::size_t in = random() % rows.size();
      const Nanoseconds left = rows[in].start + rows[in].duration - free_from[in];
      if (left < 10) continue;
      const Nanoseconds start = free_from[in] + 1 + static_cast<Nanoseconds>(random() % 3);
      const Nanoseconds most = std::min<Nanoseconds>(left - 5, left / 2);
      const Nanoseconds duration =
          1 + static_cast<Nanoseconds>(random()) % std::max<Nanoseconds>(1, most);
      free_from[in] = start + duration + 1;
      rows.push_back({start, duration});
      free_from.push_back(start);
    }
    std::shuffle(rows.begin(), rows.end(), random);
    const Table table(rows);
    const std::vector<std::uint32_t> parents = parents_of(table.time, table.order());
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      std::uint32_t smallest = kNone;
      for (std::uint32_t j = 0; j < rows.size(); ++j) {
        const bool contains =
            rows[j].start <= rows[i].start && j != i &&
            rows[j].start + rows[j].duration >= rows[i].start + rows[i].duration &&
            rows[j].duration > rows[i].duration;
        if (contains && (smallest == kNone || rows[j].duration < rows[smallest].duration)) {
          smallest = j;
        }
      }
      ASSERT_EQ(parents[i], smallest) << "round " << round << " row " << i;
    }
  }
}

TEST(Nesting, AnyIntervalsGiveParentsThatStartEarlier) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<Row> rows;
    for (int i = 0; i < 40; ++i) {
      rows.push_back({static_cast<Nanoseconds>(random() % 50),
                      static_cast<Nanoseconds>(random() % 20),
                      static_cast<std::uint16_t>(random() % 2)});
    }
    const Table table(rows);
    const std::vector<std::uint32_t> parents = parents_of(table.time, table.order());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (parents[i] == kNone) continue;
      EXPECT_LE(rows[parents[i]].start, rows[i].start);
      EXPECT_EQ(rows[parents[i]].thread, rows[i].thread);
    }
  }
}

TEST(Nesting, EqualIntervalsKeepTheirOrderButForTies) {
  const Table table({{5, 2}, {5, 2}, {0, 1}, {5, 2}});
  Column<std::uint32_t> tie;
  for (const std::uint32_t value : {2U, 1U, 0U, 1U}) tie.push_back(value);
  EXPECT_EQ(table.order().rows, (std::vector<std::uint32_t>{2, 0, 1, 3}));
  EXPECT_EQ(rows_by_thread(table.time, table.thread, tie).rows,
            (std::vector<std::uint32_t>{2, 1, 3, 0}));
  EXPECT_EQ(rows_by_start(table.time), (std::vector<std::uint32_t>{2, 0, 1, 3}));
}

// A child of which half lies inside is cut where the outer one ends; with less it is none.
TEST(Nesting, WhatSticksOutIsCut) {
  const Table half({{0, 100}, {95, 10}, {101, 2}});
  EXPECT_EQ(parents_of(half.time, half.order()), (std::vector<std::uint32_t>{kNone, 0, kNone}));
  const Table less({{0, 100}, {96, 10}, {101, 2}});
  EXPECT_EQ(parents_of(less.time, less.order()), (std::vector<std::uint32_t>{kNone, kNone, 1}));
}

TEST(Nesting, FindsTheInnermostAtAStart) {
  const Table outer({{0, 100}, {10, 20}, {0, 50, 1}});
  const Table inner({{5, 1}, {10, 1}, {15, 1}, {30, 1}, {100, 1}, {20, 9, 1}, {4, 1, 2}});
  EXPECT_EQ(innermost_at_start(outer.time, outer.order(), inner.time, inner.order()),
            (std::vector<std::uint32_t>{0, 1, 1, 0, kNone, 2, kNone}));
}

}  // namespace
}  // namespace rooftile::trace
