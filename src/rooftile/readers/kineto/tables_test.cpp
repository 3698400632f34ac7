#include "rooftile/readers/kineto/tables.h"

#include <gtest/gtest.h>

#include <cstddef>
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
