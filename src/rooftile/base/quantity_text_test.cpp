#include "rooftile/base/quantity_text.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Scale, TimesTakeTheUnitThatLeavesOneToThousand) {
  EXPECT_EQ(time_text(Seconds(0)), "0 s");
  EXPECT_EQ(time_text(Seconds(3.2e-9)), "3.20 ns");
  EXPECT_EQ(time_text(microseconds(12.34)), "12.3 µs");
  EXPECT_EQ(time_text(milliseconds(1.234)), "1.23 ms");
  EXPECT_EQ(time_text(Seconds(7260)), "7260 s");
}

TEST(Scale, RoundingMayReachTheNextUnit) {
  EXPECT_EQ(time_text(microseconds(999.4)), "999 µs");
  EXPECT_EQ(time_text(microseconds(999.6)), "1.00 ms");
  EXPECT_EQ(time_text(milliseconds(9.999)), "10.0 ms");
}

TEST(Scale, RangesShareOneUnit) {
  EXPECT_EQ(range_text({milliseconds(0.8), milliseconds(1.2), milliseconds(1.5)}), "0.80–1.5 ms");
  EXPECT_EQ(range_text({milliseconds(343), milliseconds(345), milliseconds(344)}), "340 ms");
  EXPECT_EQ(range_text({Seconds(0), Seconds(0), Seconds(0)}), "0 s");
  EXPECT_EQ(range_text({microseconds(5.6), milliseconds(0.8), milliseconds(2.2)}), "0.01–2.2 ms");
  EXPECT_EQ(range_text({microseconds(1), milliseconds(0.8), milliseconds(2.2)}), "0–2.2 ms");
  // No gain is expected, yet one is possible.
  EXPECT_EQ(range_text({Seconds(0), Seconds(0), microseconds(5)}), "0–5.0 µs");
  EXPECT_EQ(range_text({microseconds(-200), milliseconds(1), milliseconds(2)}), "-0.20–2.0 ms");
}

TEST(Scale, WorkAndRatesAreDecimalSizesBinary) {
  EXPECT_EQ(flop_text(Flop(8.178e9)), "8.18 GFLOP");
  EXPECT_EQ(flop_text(Flop(512)), "512 FLOP");
  EXPECT_EQ(rate_text(FlopPerSecond(312e12)), "312 TFLOP/s");
  EXPECT_EQ(rate_text(BytesPerSecond(3.35e12)), "3.35 TB/s");
  EXPECT_EQ(bytes_text(Bytes(85899345920.0)), "80.0 GiB");
  EXPECT_EQ(bytes_text(Bytes(100)), "100 B");
  EXPECT_EQ(bytes_text({Bytes(0x1p29), Bytes(0x1p30), Bytes(0x1p31)}), "1.00 GiB (0.500–2.00)");
  EXPECT_EQ(bytes_text({Bytes(100), Bytes(100), Bytes(100)}), "100 B");
  // Four digits are too many: from 1000 MiB on it is GiB.
  EXPECT_EQ(bytes_text(Bytes(999 * 1048576.0)), "999 MiB");
  EXPECT_EQ(bytes_text(Bytes(1000 * 1048576.0)), "0.977 GiB");
  EXPECT_EQ(bytes_text(Bytes(1024 * 1048576.0)), "1.00 GiB");
}

TEST(Scale, TrafficIsDecimalAsRatesAre) {
  EXPECT_EQ(traffic_text(Bytes(13.4e9)), "13.4 GB");
  EXPECT_EQ(traffic_text(Bytes(33.6e6)), "33.6 MB");
  EXPECT_EQ(traffic_text(Bytes(999)), "999 B");
}

TEST(Scale, ChangesHaveASign) {
  EXPECT_EQ(change_text(0.0009), "+0.09 %");
  EXPECT_EQ(change_text(-0.22), "-22 %");
  EXPECT_EQ(change_text(0.034), "+3.4 %");
}

TEST(Scale, CountsAndShares) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(2700), "2,700");
  EXPECT_EQ(count_text(9005), "9,005");
  EXPECT_EQ(count_text(25.6e6), "25.6 M");
  EXPECT_EQ(count_text(8.03e9), "8.03 B");
  EXPECT_EQ(share_text(0.124), "12 %");
  EXPECT_EQ(share_text(0.0421), "4.2 %");
  EXPECT_EQ(share_text(0.0002), "< 0.1 %");
  EXPECT_EQ(share_text(0), "0 %");
}

TEST(Scale, WhatIsNotANumberIsUnknown) {
  EXPECT_EQ(digits_text(1.0 / 0.0), "unknown");
  EXPECT_EQ(share_text(0.0 / 0.0), "unknown");
}

}  // namespace
}  // namespace rooftile
