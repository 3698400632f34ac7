#include "rooftile/hardware/mig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;

struct SliceCase {
  const char* name;
  int sms;
  double memory_share, l2_share;
};

class MigSlice : public ::testing::TestWithParam<SliceCase> {};

TEST_P(MigSlice, HasItsShareOfTheGpu) {
  const SliceCase& expected = GetParam();
  const std::string name = expected.name;
  const Result<Device> slice = find_device(name);
  ASSERT_TRUE(slice) << slice.error().message;
  const Result<Device> whole = find_device(name.substr(0, name.find(':')));
  ASSERT_TRUE(whole);
  EXPECT_EQ(slice->sms, expected.sms);
  EXPECT_DOUBLE_EQ(slice->dram_bandwidth / whole->dram_bandwidth, expected.memory_share);
  EXPECT_DOUBLE_EQ(slice->dram_size / whole->dram_size, expected.memory_share);
  EXPECT_DOUBLE_EQ(slice->l2_size / whole->l2_size, expected.l2_share);
  EXPECT_DOUBLE_EQ(*slice->peak(Dtype::bf16) / *whole->peak(Dtype::bf16),
                   static_cast<double>(expected.sms) / whole->sms);
}

// Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles"; SM counts as printed by
// nvidia-smi mig -lgip.
INSTANTIATE_TEST_SUITE_P(
    UserGuide, MigSlice,
    ::testing::Values(
        SliceCase{"a30:1g.6gb", 14, 0.25, 0.25}, SliceCase{"a30:4g.24gb", 56, 1, 1},
        SliceCase{"a100_sxm_40gb:1g.5gb", 14, 0.125, 0.125},
        SliceCase{"a100_sxm_40gb:3g.20gb", 42, 0.5, 0.5},
        SliceCase{"a100_sxm_80gb:3g.40gb", 42, 0.5, 0.5},
        SliceCase{"a100_pcie_80gb:2g.20gb", 28, 0.25, 0.25}, SliceCase{"a100:7g.80gb", 98, 1, 1},
        SliceCase{"h100:1g.10gb", 16, 0.125, 0.125}, SliceCase{"h100:1g.20gb", 26, 0.25, 0.125},
        SliceCase{"h100_sxm:3g.40gb", 60, 0.5, 0.5}, SliceCase{"h100_pcie:3g.40gb", 46, 0.5, 0.5},
        SliceCase{"h100_nvl:3g.47gb", 60, 0.5, 0.5}, SliceCase{"gh200:1g.24gb", 26, 0.25, 0.125},
        SliceCase{"h200:1g.18gb", 16, 0.125, 0.125}, SliceCase{"H200:7G.141GB", 132, 1, 1},
        SliceCase{"rtx_pro_6000:2g.48gb", 94, 0.5, 0.5},
        SliceCase{"h100:1g.10gb+me", 16, 0.125, 0.125}));

TEST(MigSlice, IsNamedAsTheDriverNamesIt) {
  const Result<Device> slice = find_device("NVIDIA A100-SXM4-80GB MIG 3g.40gb");
  ASSERT_TRUE(slice) << slice.error().message;
  EXPECT_EQ(slice->id, "a100_sxm_80gb:3g.40gb");
  EXPECT_FALSE(slice->nvlink_bandwidth);
  EXPECT_FALSE(slice->power_limit);
}

struct SpelledSlice {
  const char* name;
  const char* id;
};

TEST(MigSlice, IsFoundByItsName) {
  const SpelledSlice cases[] = {
      {"a100_mig_3g_40gb", "a100_sxm_80gb:3g.40gb"},
      {"A100-MIG-3g.40gb", "a100_sxm_80gb:3g.40gb"},
      {"a100_mig_3g", "a100_sxm_80gb:3g.40gb"},
      {"a100_mig_1g_5gb", "a100_sxm_40gb:1g.5gb"},  // a profile of the 40 GB part alone
      {"a100:1g.5gb", "a100_sxm_40gb:1g.5gb"},
      {"a100_pcie_40gb_mig_2g_10gb", "a100_pcie_40gb:2g.10gb"},
      {"h100_mig_1g_10gb", "h100_sxm:1g.10gb"},
      {"h100_pcie_mig_1g_10gb_me", "h100_pcie:1g.10gb"},
      {"h100_mig_1g_12gb", "h100_nvl:1g.12gb"},
      {"h100:1g.10gb-me", "h100_sxm:1g.10gb"},
  };
  for (const SpelledSlice& slice : cases) {
    const Result<Device> device = find_device(slice.name);
    ASSERT_TRUE(device) << slice.name << ": " << device.error().message;
    EXPECT_EQ(device->id, slice.id) << slice.name;
  }
}

TEST(MigSlice, RefusesMadeUpProfilesWithTheRealOnes) {
  for (const char* name : {"h100_mig_5g_50gb", "h100_mig_1g", "h100_mig", "h100:9g.1gb"}) {
    const Result<Device> slice = find_device(name);
    ASSERT_FALSE(slice) << name;
    EXPECT_THAT(slice.error().message, HasSubstr("expected one of 1g.10gb 1g.20gb 2g.20gb"))
        << name;
  }
}

TEST(MigSlice, ListsKnownProfiles) {
  const Result<Device> slice = find_device("a30:1g.5gb");
  ASSERT_FALSE(slice);
  EXPECT_THAT(slice.error().message, HasSubstr("1g.6gb 2g.12gb 4g.24gb"));
  EXPECT_THAT(find_device("h100:").error().message, HasSubstr("1g.10gb"));
}

TEST(MigSlice, NeedsAGpuThatHasThem) {
  EXPECT_THAT(find_device("t4:1g.2gb").error().message, HasSubstr("no MIG profile"));
  EXPECT_THAT(find_device("h1oo:1g.10gb").error().message, HasSubstr("unknown GPU 'h1oo'"));
}

}  // namespace
}  // namespace rooftile
