// The constants of a generation on another of its GPUs, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "rooftile/analysis/time/gemm_time.h"
#include "rooftile/analysis/time/quantize_time.h"

namespace rooftile {
namespace {

// Fitted at 1 GHz, 1 W for a TFLOP/s and 1,000 flop a clock and SM.
GemmConstants fitted() {
  GemmConstants constants;
  constants.latency_per_k = Seconds(1e-9);
  constants.operand_port = BytesPerSecond(1e11);
  constants.quantize.row = Seconds(1e-6);
  constants.quantize.element = Seconds(1e-10);
  constants.in_core_efficiency = 1;
  constants.sustained_efficiency = 0.8;
  constants.dram_efficiency = 0.8;
  constants.tile_edge_elements = 10;
  constants.reference_clock = Hertz(1e9);
  constants.reference_watts_per_flop_rate = 1e-12;
  constants.reference_flop_per_clock = 1000;
  return constants;
}

// 100 TFLOP/s at 2 GHz on 100 SMs: 500 flop a clock and SM.
Device gpu(double watts) {
  Device device;
  device.boost_clock = Hertz(2e9);
  device.sms = 100;
  device.tensor_core_peak[Dtype::fp16] = FlopPerSecond(100e12);
  device.power_limit = Watts(watts);
  return device;
}

TEST(GemmScaling, LatencyAndPortsFollowTheClock) {
  const GemmConstants scaled = scale_constants(fitted(), gpu(100));
  EXPECT_DOUBLE_EQ(scaled.latency_per_k.value(), 0.5e-9);
  EXPECT_DOUBLE_EQ(scaled.operand_port.value(), 2e11);
  EXPECT_DOUBLE_EQ(scaled.quantize.row.value(), 0.5e-6);
  EXPECT_DOUBLE_EQ(scaled.quantize.element.value(), 0.5e-10);
  EXPECT_DOUBLE_EQ(scaled.tile_edge_elements, 5);
  EXPECT_DOUBLE_EQ(scaled.sustained_efficiency, 0.8);
  Device faster = gpu(100);
  faster.tensor_core_peak[Dtype::fp16] = FlopPerSecond(400e12);
  EXPECT_EQ(scale_constants(fitted(), faster).tile_edge_elements, 10);
}

// What power allows, but no more than the cores do at full clock, and no less than three quarters.
TEST(GemmScaling, RatesFollowThePower) {
  const auto rates = [](double watts, double in_core = 1) {
    GemmConstants constants = fitted();
    constants.in_core_efficiency = in_core;
    constants = scale_constants(constants, gpu(watts));
    return std::pair(constants.in_core_efficiency, constants.sustained_efficiency);
  };
  const auto expect = [](std::pair<double, double> found, double in_core, double sustained) {
    EXPECT_NEAR(found.first, in_core, 1e-12);
    EXPECT_NEAR(found.second, sustained, 1e-12);
  };
  expect(rates(100), 1, 0.8);
  expect(rates(105), 1.05, 0.84);
  expect(rates(150), 1.1, 1.2);
  expect(rates(150, 1.2), 1.2, 1.2);
  expect(rates(80), 1, 0.64);
  expect(rates(50), 1, 0.6);
  Device unlimited = gpu(100);
  unlimited.power_limit.reset();
  EXPECT_EQ(scale_constants(fitted(), unlimited).sustained_efficiency, 0.8);
  Device without = gpu(50);
  without.tensor_core_peak.clear();
  EXPECT_EQ(scale_constants(fitted(), without).sustained_efficiency, 0.8);
}

// ECC bits among the data cost a sixth; a GPU without them reaches 0.94 of its bandwidth at most.
TEST(GemmScaling, BandwidthFollowsEcc) {
  const auto efficiency = [](bool fitted_with, double share, double own) {
    GemmConstants constants = fitted();
    constants.reference_inline_ecc = fitted_with;
    constants.dram_efficiency = own;
    Device device = gpu(100);
    if (share > 0) device.dram_ecc_share = share;
    return scale_constants(constants, device).dram_efficiency;
  };
  EXPECT_EQ(efficiency(false, 0, 0.8), 0.8);
  EXPECT_EQ(efficiency(true, 0.06, 0.8), 0.8);
  EXPECT_DOUBLE_EQ(efficiency(false, 0.06, 0.9), 0.75);
  EXPECT_DOUBLE_EQ(efficiency(true, 0, 0.7), 0.84);
  EXPECT_EQ(efficiency(true, 0, 0.8), 0.94);
  EXPECT_EQ(efficiency(true, 0, 0.95), 0.95);
}

// 256 rows on 128 SMs are two waves; 3 bytes an element are read and written.
TEST(QuantizeTime, WavesOfRowsAndTheirTraffic) {
  QuantizeConstants constants;
  constants.launch = Seconds(1e-6);
  constants.row = Seconds(1e-7), constants.element = Seconds(1e-10);
  constants.dram_efficiency = 0.5;
  Device device;
  device.sms = 128;
  device.dram_bandwidth = BytesPerSecond(1e12);
  const QuantizeParts parts = quantize_parts(256, 1000, 2, constants, device);
  EXPECT_DOUBLE_EQ(parts.launch, 1e-6);
  EXPECT_DOUBLE_EQ(parts.compute, 2 * (1e-7 + 1000 * 1e-10));
  EXPECT_DOUBLE_EQ(parts.memory, 256 * 1000 * 3 / 0.5e12);
  EXPECT_NEAR(parts.total, 1e-6 + std::cbrt(std::pow(parts.compute, 3) + std::pow(parts.memory, 3)),
              1e-15);
  EXPECT_DOUBLE_EQ(quantize_parts(64, 1000, 2, constants, device).compute, 2e-7);
}

}  // namespace
}  // namespace rooftile
