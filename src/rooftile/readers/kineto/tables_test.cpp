#include "rooftile/readers/kineto/tables.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rooftile/readers/kineto/arguments.h"

namespace rooftile {
namespace {

constexpr std::size_t kMostSmallRows = std::size_t{1} << 20U;

TEST(KinetoTables, CountEventsOfThreadsBeyondTheirBound) {
  std::vector<HostThread> threads(65534);
  ThreadTable table(threads);
  SkippedRecords skipped;
  EXPECT_EQ(table.index_of("1", "7", skipped), 65534);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(table.index_of("1", "8", skipped), 0);
  EXPECT_EQ(table.index_of("1", "8", skipped), 0);
  EXPECT_EQ(table.index_of("1", "7", skipped), 65534);
  EXPECT_EQ(threads.size(), 65535U);
  EXPECT_EQ(skipped, (SkippedRecords{{"events of threads beyond 65535", 2}}));
}

TEST(KinetoTables, ThreadsOfOneTextAreOne) {
  std::vector<HostThread> threads;
  ThreadTable table(threads);
  SkippedRecords skipped;
  EXPECT_EQ(table.index_of("\"python\"", "\"main\"", skipped), 0);
  EXPECT_EQ(table.index_of("\"python\"", "\"loader\"", skipped), 1);
  EXPECT_EQ(table.index_of("\"python\"", "\"main\"", skipped), 0);
  EXPECT_EQ(table.index_of("12", "\"main\"", skipped), 2);
  EXPECT_EQ(threads, (std::vector<HostThread>{{-1, -2}, {-1, -3}, {12, -2}}));
  for (int i = 0; i < 1024 - 3; ++i)
    table.index_of("12", "\"t" + std::to_string(i) + "\"", skipped);
  EXPECT_EQ(threads.back().thread, -1024);
  // Further names are one thread.
  const auto beyond = table.index_of("12", "\"first beyond\"", skipped);
  EXPECT_EQ(table.index_of("12", "\"second beyond\"", skipped), beyond);
  EXPECT_TRUE(skipped.empty());
}

TEST(KinetoTables, IdsThatDoNotFitGetNumbersOfTheirOwn) {
  IdTable table;
  SkippedRecords skipped;
  constexpr std::uint32_t kFirst = std::uint32_t{1} << 31U;
  EXPECT_EQ(table.index_of("", skipped), 0U);
  EXPECT_EQ(table.index_of("0", skipped), 0U);
  EXPECT_EQ(table.index_of("2147483647", skipped), kFirst - 1);
  EXPECT_EQ(table.index_of("2147483648", skipped), kFirst);
  EXPECT_EQ(table.index_of("-1", skipped), kFirst + 1);
  EXPECT_EQ(table.index_of("2147483648", skipped), kFirst);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(table.index_of("x", skipped), 0U);
  EXPECT_EQ(skipped, (SkippedRecords{{"ids that are no 64-bit number", 1}}));
}

// A text takes its length and 80 bytes more.
TEST(KinetoTables, TextsStayWithinABound) {
  TextCache cache(170);
  EXPECT_TRUE(cache.has_room("12345"));
  cache.insert("12345", 7);
  ASSERT_NE(cache.find("12345"), nullptr);
  EXPECT_EQ(*cache.find("12345"), 7U);
  EXPECT_EQ(cache.find("1234"), nullptr);
  EXPECT_TRUE(cache.has_room("12345"));
  EXPECT_FALSE(cache.has_room("123456"));
}

TEST(KinetoTables, CountEventsOfStreamsBeyondTheirBound) {
  std::vector<GpuStream> streams(65534);
  StreamTable table(streams);
  SkippedRecords skipped;
  EXPECT_EQ(table.index_of(GpuStream{0, 7}, skipped), 65534);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(table.index_of(GpuStream{0, 8}, skipped), 0);
  EXPECT_EQ(table.index_of(GpuStream{0, 7}, skipped), 65534);
  EXPECT_EQ(skipped, (SkippedRecords{{"events of streams beyond 65535", 1}}));
}

TEST(KinetoTables, CountCopiesBeyondTheirBound) {
  Timeline timeline;
  timeline.copies.resize(kMostSmallRows - 1);
  ArgumentTables tables(timeline);
  SkippedRecords skipped;
  KnownArgs first, second;
  first.bytes = "4096";
  second.bytes = "8192";
  EXPECT_EQ(tables.copy_of("Memcpy HtoD", first, skipped), kMostSmallRows - 1);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(tables.copy_of("Memcpy HtoD", second, skipped), 0U);
  EXPECT_EQ(tables.copy_of("Memcpy HtoD", first, skipped), kMostSmallRows - 1);
  EXPECT_EQ(tables.copy_of("Memcpy", KnownArgs{}, skipped), 0U);  // says nothing to keep
  EXPECT_EQ(skipped, (SkippedRecords{{"copies beyond 2^20 different ones", 1}}));
}

TEST(KinetoTables, CountLaunchesBeyondTheirBound) {
  Timeline timeline;
  timeline.launches.resize(kMostSmallRows - 1);
  ArgumentTables tables(timeline);
  SkippedRecords skipped;
  KnownArgs first, second;
  first.grid = "[1, 2, 3]";
  second.grid = "[4, 5, 6]";
  EXPECT_EQ(tables.launch_of(first, skipped), kMostSmallRows - 1);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(tables.launch_of(second, skipped), 0U);
  EXPECT_EQ(skipped, (SkippedRecords{{"launch shapes beyond 2^20 different ones", 1}}));
}

}  // namespace
}  // namespace rooftile
