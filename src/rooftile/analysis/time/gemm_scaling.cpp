// The constants of a generation on another of its GPUs.
#include <algorithm>

#include "rooftile/analysis/time/gemm_time.h"

namespace rooftile {
namespace {

// A part with far less power per peak rate than its donor is not limited in proportion. One with
// far more is limited by its cores, which is another term.
constexpr double kMinPowerScale = 0.75;

// GDDR boards that keep ECC bits among the data reach less of their nominal bandwidth: L40S 0.62 to
// 0.87 of it in products of few rows, RTX 4090 0.83 to 0.94.
double dram_efficiency(const GemmConstants& constants, const Device& device) {
  constexpr double kWithoutEcc = 1.2, kMost = 0.94;
  const bool inline_ecc = device.dram_ecc_share.value_or(0) > 0;
  if (inline_ecc == constants.reference_inline_ecc) return constants.dram_efficiency;
  if (inline_ecc) return constants.dram_efficiency / kWithoutEcc;
  return std::max(constants.dram_efficiency,
                  std::min(constants.dram_efficiency * kWithoutEcc, kMost));
}

double power_scale(const GemmConstants& constants, const Device& device) {
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  if (!device.power_limit || peak == device.tensor_core_peak.end()) return 1;
  const double watts_per_flop_rate = device.power_limit->value() / peak->second.value();
  return std::max(watts_per_flop_rate / constants.reference_watts_per_flop_rate, kMinPowerScale);
}

// A donor at its power limit never shows its cores at full clock; a part with power to spare does.
double in_core_efficiency(const GemmConstants& constants, double scale) {
  constexpr double kFullClock = 1.1;  // against the peak at boost clock
  return std::max(constants.in_core_efficiency,
                  std::min(constants.in_core_efficiency * scale, kFullClock));
}

// What small tiles lose goes into feeding the Tensor Cores, which those of a lower rate a clock
// (GeForce, Volta beside Ampere) wait for as much less.
double tile_edge(const GemmConstants& constants, const Device& device) {
  const auto rate = flop_per_clock_and_sm(device);
  return constants.tile_edge_elements *
         (rate ? std::min(*rate / constants.reference_flop_per_clock, 1.0) : 1.0);
}

}  // namespace

std::optional<double> flop_per_clock_and_sm(const Device& device) {
  const auto peak = device.tensor_core_peak.find(Dtype::fp16);
  const double clocks = device.boost_clock.value() * device.sms;
  if (peak == device.tensor_core_peak.end() || !(clocks > 0)) return std::nullopt;
  return peak->second.value() / clocks;
}

GemmConstants scale_constants(GemmConstants constants, const Device& device) {
  const double clock = device.boost_clock.value() > 0
                           ? device.boost_clock.value() / constants.reference_clock.value()
                           : 1.0;
  constants.latency_per_k = constants.latency_per_k / clock;
  constants.operand_port = constants.operand_port * clock;
  constants.quantize.row = constants.quantize.row / clock;
  constants.quantize.element = constants.quantize.element / clock;
  const double scale = power_scale(constants, device);
  constants.in_core_efficiency = in_core_efficiency(constants, scale);
  constants.sustained_efficiency *= scale;
  constants.dram_efficiency = dram_efficiency(constants, device);
  constants.tile_edge_elements = tile_edge(constants, device);
  return constants;
}

}  // namespace rooftile
