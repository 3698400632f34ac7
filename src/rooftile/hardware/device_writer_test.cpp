#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

TEST(DeviceFileText, ReadsBackToTheSameDevice) {
  for (const Device& device : built_in_devices()) {
    const std::string text = device_file_text(device);
    const auto again = parse_device(text, device.id);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(device_file_text(*again), text);
    EXPECT_EQ(again->name, device.name);
    EXPECT_EQ(again->compute_capability, device.compute_capability);
    EXPECT_EQ(again->tensor_core_peak, device.tensor_core_peak);
    EXPECT_EQ(again->cuda_core_peak, device.cuda_core_peak);
    EXPECT_EQ(again->dram_bandwidth, device.dram_bandwidth);
    EXPECT_EQ(again->power_limit, device.power_limit);
    EXPECT_EQ(again->cuda_core_clock, device.cuda_core_clock);
    EXPECT_EQ(again->mig_profiles.size(), device.mig_profiles.size());
  }
}

TEST(DeviceFileText, KeepsTheTimeModel) {
  Device device = find_device("t4").value();
  device.time_model = R"({"stream":{"launch_s":2e-06}})";
  const auto again = parse_device(device_file_text(device), "mine");
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->time_model, device.time_model);
}

}  // namespace
}  // namespace rooftile
