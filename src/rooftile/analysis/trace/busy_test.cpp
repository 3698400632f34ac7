#include "rooftile/analysis/trace/busy.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/support/timeline_text.h"

namespace rooftile::trace {
namespace {

constexpr Nanoseconds kLength = 300;
constexpr std::array kKernels{"void gemm()", "ncclDevKernel_AllReduce_Sum_f16_RING_LL()"};

// What runs in each nanosecond: bit 0 compute, 1 communication, 2 copies.
using Running = std::array<unsigned, kLength>;

struct Expected {
  Nanoseconds busy = 0, compute = 0, communication = 0, exposed_communication = 0, copy = 0,
              exposed_copy = 0, gaps = 0;
};

Expected count(const Running& running, const Window& window) {
  Expected sums;
  for (Nanoseconds at = window.start; at < window.end; ++at) {
    const unsigned now = running.at(static_cast<std::size_t>(at));
    sums.busy += now != 0 ? 1 : 0;
    sums.gaps += now == 0 ? 1 : 0;
    sums.compute += (now & 1U) != 0 ? 1 : 0;
    sums.communication += (now & 2U) != 0 ? 1 : 0;
    sums.exposed_communication += (now & 3U) == 2U ? 1 : 0;
    sums.copy += (now & 4U) != 0 ? 1 : 0;
    sums.exposed_copy += now == 4U ? 1 : 0;
  }
  return sums;
}

std::string random_activities(std::mt19937& random, Running& running) {
  std::string text;
  const int count = static_cast<int>(random() % 14);
  for (int i = 0; i < count; ++i) {
    const auto start = random() % 250;
    const auto duration = random() % 50;
    const auto kind = random() % 3;
    const std::string place = std::to_string(random() % 3) + " " + std::to_string(start) + "ns " +
                              std::to_string(duration) + "ns ";
    text += kind == 2 ? "copy " + place + "HtoD\n" : "kernel " + place + kKernels.at(kind) + "\n";
    for (auto at = start; at < start + duration; ++at) running.at(at) |= 1U << kind;
  }
  return text;
}

TEST(Busy, UnionsAgreeWithCountingEveryNanosecond) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Running running{};
    const std::string text = random_activities(random, running);
    const auto timeline = parse_timeline(text);
    ASSERT_TRUE(timeline) << text;
    const KernelNames names(*timeline);
    const GpuTrack track = busiest_gpu(*timeline, names);
    const auto from = static_cast<Nanoseconds>(random() % 100);
    const Window window{from, from + static_cast<Nanoseconds>(random() % 200)};
    const BusySplit split = split_busy(*timeline, track, window);
    const Expected expected = count(running, window);
    EXPECT_EQ(split.busy, expected.busy) << text;
    EXPECT_EQ(split.compute, expected.compute) << text;
    EXPECT_EQ(split.communication, expected.communication) << text;
    EXPECT_EQ(split.exposed_communication, expected.exposed_communication) << text;
    EXPECT_EQ(split.copy, expected.copy) << text;
    EXPECT_EQ(split.exposed_copy, expected.exposed_copy) << text;
    Nanoseconds gaps = 0;
    for (const Gap& gap : split.gaps) gaps += gap.end - gap.start;
    EXPECT_EQ(gaps, expected.gaps) << text;
  }
}

TEST(Busy, TakesTheBusiestGpu) {
  const auto timeline = parse_timeline(
      "kernel 0:7 0us 5us a\nkernel 1:7 0us 3us b\nkernel 1:8 4us 4us c\nkernel 0:9 1us 2us d\n");
  ASSERT_TRUE(timeline);
  const GpuTrack track = busiest_gpu(*timeline, KernelNames(*timeline));
  EXPECT_EQ(track.device, 1);
  EXPECT_EQ(track.rows, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(track.other_devices, 1U);
}

TEST(Busy, CoverAnswersParts) {
  Cover cover;
  cover.add(10, 20);
  cover.add(15, 25);
  cover.add(40, 50);
  EXPECT_EQ(cover.total(), 25);
  EXPECT_EQ(cover.within(0, 100), 25);
  EXPECT_EQ(cover.within(12, 41), 14);
  EXPECT_EQ(cover.within(26, 39), 0);
  EXPECT_EQ(cover.within(30, 20), 0);
}

}  // namespace
}  // namespace rooftile::trace
