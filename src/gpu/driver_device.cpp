#include "gpu/driver_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rooftile::gpu {
namespace {

// Dense flop per clock and SM, FP32 accumulation; 0 where there is no such unit. Tensor Cores:
// fp16 and bf16, tf32, fp8, int8. CUDA cores: fp32, fp64. Sources: NVIDIA's architecture white
// papers (V100, Turing, A100, GA102, Ada, H100, Blackwell); CUDA C++ Programming Guide, arithmetic
// instructions.
struct SmRates {
  int compute_capability;
  std::string_view architecture;
  double sixteen_bit, tf32, fp8, int8, fp32, fp64;
  bool bf16;
};

constexpr std::array<SmRates, 10> kRates{{
    {60, "pascal", 0, 0, 0, 0, 128, 64, false},
    {61, "pascal", 0, 0, 0, 0, 256, 8, false},
    {70, "volta", 1024, 0, 0, 0, 128, 64, false},
    {75, "turing", 1024, 0, 0, 2048, 128, 4, false},
    {80, "ampere", 2048, 1024, 0, 4096, 128, 64, true},
    {86, "ampere", 1024, 512, 0, 2048, 256, 4, true},
    {89, "ada", 1024, 512, 2048, 2048, 256, 4, true},
    {90, "hopper", 4096, 2048, 8192, 8192, 256, 128, true},
    {100, "blackwell", 8192, 4096, 16384, 16384, 256, 128, true},
    {120, "blackwell", 1024, 512, 2048, 2048, 256, 4, true},
}};

// Of the same compute capability, or of the nearest older one.
const SmRates* rates_of(int compute_capability) {
  const SmRates* nearest = nullptr;
  for (const SmRates& rates : kRates) {
    if (rates.compute_capability <= compute_capability) nearest = &rates;
  }
  return nearest;
}

}  // namespace

Result<Device> device_of_facts(const DriverFacts& facts) {
  const SmRates* rates = rates_of(facts.compute_capability);
  if (rates == nullptr) {
    return fail(fmt::format("found {} of compute capability {}.{}, expected 6.0 or newer",
                            facts.name, facts.compute_capability / 10,
                            facts.compute_capability % 10));
  }
  const double per_clock = facts.sms * facts.clock.value();
  const auto put = [&](std::map<Dtype, FlopPerSecond>& peaks, Dtype dtype, double rate) {
    if (rate > 0) peaks[dtype] = FlopPerSecond(rate * per_clock);
  };
  Device device;
  device.id = "this_gpu";
  device.name = facts.name;
  device.architecture = rates->architecture;
  device.compute_capability = facts.compute_capability;
  device.sms = facts.sms;
  device.boost_clock = facts.clock;
  put(device.tensor_core_peak, Dtype::fp16, rates->sixteen_bit);
  put(device.tensor_core_peak, Dtype::bf16, rates->bf16 ? rates->sixteen_bit : 0);
  put(device.tensor_core_peak, Dtype::tf32, rates->tf32);
  put(device.tensor_core_peak, Dtype::fp8, rates->fp8);
  put(device.tensor_core_peak, Dtype::int8, rates->int8);
  put(device.cuda_core_peak, Dtype::fp32, rates->fp32);
  put(device.cuda_core_peak, Dtype::fp64, rates->fp64);
  constexpr double kTransfersPerClock = 2, kBitsPerByte = 8;
  device.dram_bandwidth = BytesPerSecond(kTransfersPerClock * facts.memory_clock.value() *
                                         facts.memory_bus_bits / kBitsPerByte);
  device.dram_size = facts.memory;
  device.l2_size = facts.l2;
  if (facts.shared_memory_per_sm.value() > 0) {
    device.shared_memory_per_sm = facts.shared_memory_per_sm;
  }
  device.power_limit = facts.power_limit;
  return device;
}

}  // namespace rooftile::gpu
