#include "rooftile/hardware/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rooftile {
namespace {

using ::testing::HasSubstr;

const std::vector<DriverGpu> kGpus = {{"NVIDIA A100-SXM4-80GB", "GPU-aaaa-1"},
                                      {"NVIDIA H100 80GB HBM3", "GPU-bbbb-2"}};

TEST(FirstVisible, IsTheFirstGpuWithoutTheVariable) {
  EXPECT_EQ(first_visible(kGpus, std::nullopt)->uuid, "GPU-aaaa-1");
}

TEST(FirstVisible, FollowsIndexAndUuid) {
  EXPECT_EQ(first_visible(kGpus, "1")->uuid, "GPU-bbbb-2");
  EXPECT_EQ(first_visible(kGpus, " 1,0")->uuid, "GPU-bbbb-2");
  EXPECT_EQ(first_visible(kGpus, "GPU-bbbb")->uuid, "GPU-bbbb-2");
}

TEST(FirstVisible, SaysWhyThereIsNone) {
  EXPECT_THAT(first_visible({}, std::nullopt).error().message, HasSubstr("lists no GPU"));
  EXPECT_THAT(first_visible(kGpus, "2").error().message, HasSubstr("names GPU 2"));
  EXPECT_THAT(first_visible(kGpus, "GPU-cc").error().message, HasSubstr("'GPU-cc'"));
  EXPECT_THAT(first_visible(kGpus, "MIG-1").error().message, HasSubstr("--gpu a100:3g.40gb"));
  for (const char* hidden : {"", "-1", "NoDevFiles"}) {
    EXPECT_THAT(first_visible(kGpus, hidden).error().message, HasSubstr("hides every GPU"));
  }
}

TEST(DeviceOfDriverGpu, FindsTheBuiltInDevice) {
  EXPECT_EQ(device_of_driver_gpu(kGpus[1])->id, "h100_sxm");
}

TEST(DeviceOfDriverGpu, PointsToADeviceFile) {
  const Result<Device> device = device_of_driver_gpu({"NVIDIA Z9000", "GPU-1"});
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message, HasSubstr("'NVIDIA Z9000'"));
  EXPECT_THAT(device.error().message, HasSubstr("--gpu-file"));
}

}  // namespace
}  // namespace rooftile
