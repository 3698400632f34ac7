#include "gpu/driver_device.h"

#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"

namespace rooftile::gpu {
namespace {

// As cuDeviceGetAttribute reports them; the built-in files have the data sheets' numbers.
struct Case {
  const char* id;
  DriverFacts facts;
};

const Case kCases[] = {
    {"a100_sxm_80gb",
     {"NVIDIA A100-SXM4-80GB", 80, 108, Hertz(1.41e9), Hertz(1.593e9), 5120, Bytes(8.5e10),
      Bytes(41943040), Bytes(167936), Watts(400)}},
    {"l40s",
     {"NVIDIA L40S", 89, 142, Hertz(2.52e9), Hertz(9.001e9), 384, Bytes(4.7e10), Bytes(1.0066e8),
      Bytes(102400), Watts(350)}},
    {"t4",
     {"Tesla T4", 75, 40, Hertz(1.59e9), Hertz(5.001e9), 256, Bytes(1.57e10), Bytes(4194304),
      Bytes(65536), Watts(70)}},
};

TEST(DeviceOfFacts, ComesNearTheDataSheet) {
  for (const Case& each : kCases) {
    const auto device = device_of_facts(each.facts);
    ASSERT_TRUE(device) << each.id;
    const Device known = find_device(each.id).value();
    EXPECT_NEAR(device->dram_bandwidth / known.dram_bandwidth, 1, 0.03) << each.id;
    EXPECT_EQ(device->architecture, known.architecture);
    for (const auto& [dtype, peak] : known.tensor_core_peak) {
      if (dtype != Dtype::fp16 && dtype != Dtype::tf32 && dtype != Dtype::int8) continue;
      ASSERT_TRUE(device->tensor_core_peak.contains(dtype)) << each.id;
      EXPECT_NEAR(device->tensor_core_peak.at(dtype) / peak, 1, 0.03)
          << each.id << " " << to_string(dtype);
    }
    EXPECT_NEAR(device->cuda_core_peak.at(Dtype::fp32) / known.cuda_core_peak.at(Dtype::fp32), 1,
                0.03);
  }
}

TEST(DeviceOfFacts, WritesAReadableDeviceFile) {
  const Device device = device_of_facts(kCases[0].facts).value();
  EXPECT_TRUE(parse_device(device_file_text(device), "this_gpu"));
}

TEST(DeviceOfFacts, NewerGpusTakeTheNearestOlderRates) {
  DriverFacts facts = kCases[1].facts;
  facts.compute_capability = 121;
  EXPECT_EQ(device_of_facts(facts)->architecture, "blackwell");
  EXPECT_EQ(device_of_facts(facts)->compute_capability, 121);
}

TEST(DeviceOfFacts, OldGpusAreRefused) {
  DriverFacts facts = kCases[1].facts;
  facts.compute_capability = 52;
  EXPECT_FALSE(device_of_facts(facts));
}

}  // namespace
}  // namespace rooftile::gpu
