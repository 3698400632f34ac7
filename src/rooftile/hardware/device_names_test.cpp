#include "rooftile/hardware/device_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "rooftile/base/embedded.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DeviceKey, IgnoresCaseSeparatorsAndBrand) {
  EXPECT_EQ(device_key("NVIDIA A100-SXM4-80GB"), "a100sxm480gb");
  EXPECT_EQ(device_key("a100_sxm4_80gb"), "a100sxm480gb");
  EXPECT_EQ(device_key("NVIDIA GeForce RTX 4090"), "rtx4090");
  EXPECT_EQ(device_key("Tesla V100-SXM2-16GB"), "v100sxm216gb");
  EXPECT_EQ(device_key("nvidia"), "nvidia");
  EXPECT_EQ(device_key(""), "");
}

TEST(DeviceNames, ReadsUpToTheFirstOtherKey) {
  EXPECT_THAT(device_names(R"({"name": "X", "aliases": ["x1", "x 2"], "sms": 3, broken)"),
              ElementsAre("X", "x1", "x 2"));
  EXPECT_THAT(device_names("not JSON"), ElementsAre());
}

// Otherwise an alias of one file could hide another GPU.
TEST(DeviceNames, BelongToOneDeviceOnly) {
  std::map<std::string, std::string> owners;
  for (const EmbeddedFile& file : embedded_devices()) {
    std::vector<std::string> names = device_names(file.text);
    names.emplace_back(file.name);
    for (const std::string& name : names) {
      const auto [entry, inserted] = owners.try_emplace(device_key(name), file.name);
      EXPECT_EQ(entry->second, file.name) << name;
    }
  }
}

TEST(DeviceNames, OfBuiltInFilesStandFirst) {
  for (const Device& device : built_in_devices()) {
    for (const EmbeddedFile& file : embedded_devices()) {
      if (file.name != device.id) continue;
      EXPECT_EQ(device_names(file.text).size(), 1 + device.aliases.size()) << device.id;
    }
  }
}

struct Spelling {
  const char* name;
  const char* id;
};

class FindDevice : public ::testing::TestWithParam<Spelling> {};

TEST_P(FindDevice, KnowsTheSpelling) {
  const Result<Device> device = find_device(GetParam().name);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->id, GetParam().id);
}

INSTANTIATE_TEST_SUITE_P(
    Friendly, FindDevice,
    ::testing::Values(Spelling{"h100", "h100_sxm"}, Spelling{"H100", "h100_sxm"},
                      Spelling{"a100", "a100_sxm_80gb"}, Spelling{"a100_40gb", "a100_sxm_40gb"},
                      Spelling{"a100 pcie", "a100_pcie_80gb"}, Spelling{"v100", "v100_sxm2"},
                      Spelling{"h200", "h200_sxm"}, Spelling{"b200", "b200"},
                      Spelling{"nvidia_l4", "l4"}, Spelling{"rtx4090", "rtx_4090"},
                      Spelling{"4090", "rtx_4090"}, Spelling{"p100", "p100_pcie"},
                      Spelling{"RTX 4080 Super", "rtx_4080_super"}, Spelling{"3060", "rtx_3060"},
                      Spelling{"4070 ti super", "rtx_4070_ti_super"}, Spelling{"h800", "h800_sxm"},
                      Spelling{"a800", "a800_sxm"}, Spelling{"dgx spark", "gb10"},
                      Spelling{"orin", "jetson_agx_orin_64gb"}, Spelling{"thor", "jetson_thor"}));

// What torch.cuda.get_device_name and nvidia-smi print.
INSTANTIATE_TEST_SUITE_P(
    Driver, FindDevice,
    ::testing::Values(
        Spelling{"Tesla P4", "p4"}, Spelling{"Tesla P100-SXM2-16GB", "p100_sxm2"},
        Spelling{"Tesla P100-PCIE-16GB", "p100_pcie"}, Spelling{"Tesla T4", "t4"},
        Spelling{"Tesla V100-SXM2-16GB", "v100_sxm2"},
        Spelling{"Tesla V100-SXM2-32GB", "v100_sxm2_32gb"},
        Spelling{"Tesla V100-PCIE-16GB", "v100_pcie"},
        Spelling{"Tesla V100-PCIE-32GB", "v100_pcie_32gb"},
        Spelling{"NVIDIA A100-SXM4-40GB", "a100_sxm_40gb"},
        Spelling{"NVIDIA A100-SXM4-80GB", "a100_sxm_80gb"},
        Spelling{"NVIDIA A100-PCIE-40GB", "a100_pcie_40gb"},
        Spelling{"NVIDIA A100 80GB PCIe", "a100_pcie_80gb"}, Spelling{"NVIDIA A10", "a10"},
        Spelling{"NVIDIA A10G", "a10g"}, Spelling{"NVIDIA A30", "a30"},
        Spelling{"NVIDIA A40", "a40"}, Spelling{"NVIDIA L4", "l4"}, Spelling{"NVIDIA L40", "l40"},
        Spelling{"NVIDIA L40S", "l40s"}, Spelling{"NVIDIA RTX A6000", "rtx_a6000"},
        Spelling{"NVIDIA GeForce RTX 2080 Ti", "rtx_2080_ti"},
        Spelling{"NVIDIA GeForce RTX 3090", "rtx_3090"},
        Spelling{"NVIDIA GeForce RTX 4090", "rtx_4090"},
        Spelling{"NVIDIA GeForce RTX 4090 D", "rtx_4090_d"},
        Spelling{"NVIDIA GeForce RTX 5090", "rtx_5090"},
        Spelling{"NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada"},
        Spelling{"NVIDIA H100 80GB HBM3", "h100_sxm"}, Spelling{"NVIDIA H100 PCIe", "h100_pcie"},
        Spelling{"NVIDIA H100 NVL", "h100_nvl"}, Spelling{"NVIDIA H200", "h200_sxm"},
        Spelling{"NVIDIA H200 NVL", "h200_nvl"}, Spelling{"NVIDIA GH200 480GB", "gh200"},
        Spelling{"NVIDIA B200", "b200"}, Spelling{"NVIDIA GB200", "gb200"},
        Spelling{"NVIDIA B300 SXM6 AC", "b300"},
        Spelling{"NVIDIA GeForce RTX 2070 SUPER", "rtx_2070_super"},
        Spelling{"NVIDIA GeForce RTX 3080 Ti", "rtx_3080_ti"},
        Spelling{"NVIDIA GeForce RTX 4070 Ti SUPER", "rtx_4070_ti_super"},
        Spelling{"NVIDIA RTX A5000", "rtx_a5000"},
        Spelling{"NVIDIA RTX 4000 Ada Generation", "rtx_4000_ada"}, Spelling{"NVIDIA H20", "h20"},
        Spelling{"NVIDIA L20", "l20"}, Spelling{"NVIDIA H800", "h800_sxm"},
        Spelling{"NVIDIA GB10", "gb10"}, Spelling{"NVIDIA A800-SXM4-80GB", "a800_sxm"},
        Spelling{"NVIDIA TITAN RTX", "titan_rtx"}, Spelling{"Quadro RTX 8000", "quadro_rtx_8000"},
        Spelling{"NVIDIA Thor", "jetson_thor"}));

INSTANTIATE_TEST_SUITE_P(
    LongDriverNames, FindDevice,
    ::testing::Values(
        Spelling{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx_pro_6000"},
        Spelling{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx_pro_6000_max_q"},
        Spelling{"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000_server"}));

// What public tables of measurements call them.
INSTANTIATE_TEST_SUITE_P(
    MeasurementTables, FindDevice,
    ::testing::Values(Spelling{"a100_sxm4_80gb", "a100_sxm_80gb"},
                      Spelling{"h100_sxm5_80gb", "h100_sxm"}, Spelling{"l40s", "l40s"},
                      Spelling{"P4", "p4"}, Spelling{"P100", "p100_pcie"},
                      Spelling{"V100-PCIe", "v100_pcie"}, Spelling{"T4", "t4"},
                      Spelling{"A100-PCIe-40", "a100_pcie_40gb"}, Spelling{"V100", "v100_sxm2"},
                      Spelling{"H200", "h200_sxm"}, Spelling{"h200_sxm", "h200_sxm"},
                      Spelling{"RTX PRO 6000", "rtx_pro_6000"}, Spelling{"RTX 4090", "rtx_4090"},
                      Spelling{"b200_sxm", "b200"}, Spelling{"b300_sxm", "b300"},
                      Spelling{"a100_sxm", "a100_sxm_80gb"}, Spelling{"h100_sxm", "h100_sxm"},
                      Spelling{"gb200", "gb200"}, Spelling{"gb300", "gb300"},
                      Spelling{"rtx_pro_6000_server", "rtx_pro_6000_server"}));

TEST(FindDevice, NamesTheNearestForAnUnknownOne) {
  // With the letter o, so that no card comes to have the name.
  const Result<Device> device = find_device("rtx 409o");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message, HasSubstr("unknown GPU 'rtx 409o'"));
  EXPECT_THAT(device.error().message, HasSubstr("rtx_4090"));
}

TEST(FindDevice, PointsToTheListWhenNothingIsNear) {
  for (const char* name : {"quantum computer", "", "!!!!!!"}) {
    const Result<Device> device = find_device(name);
    ASSERT_FALSE(device);
    EXPECT_THAT(device.error().message, HasSubstr("`rooftile gpus` lists")) << name;
    EXPECT_THAT(device.error().message, HasSubstr("--gpu-file")) << name;
  }
}

TEST(FindDevice, ModelsNoOtherMaker) {
  for (const char* name : {"mi300x", "MI355X", "AMD Instinct MI250X", "gfx942", "gaudi", "gaudi3",
                           "tpu", "TPU v5e", "trn2", "intel_arc_b580", "RX 7900 XTX"}) {
    const Result<Device> device = find_device(name);
    ASSERT_FALSE(device) << name;
    EXPECT_THAT(device.error().message, HasSubstr("only NVIDIA GPUs are modelled")) << name;
  }
  EXPECT_THAT(find_device("tpu").error().message, HasSubstr("Google"));
}

// Else a look-up of an NVIDIA GPU could end at another maker.
TEST(FindDevice, NoBuiltInNameIsAnotherMakers) {
  for (const Device& device : built_in_devices()) {
    EXPECT_FALSE(other_maker(device_key(device.id))) << device.id;
    EXPECT_FALSE(other_maker(device_key(device.name))) << device.id;
  }
}

// A laptop GPU shares only the name with the card.
TEST(FindDevice, DoesNotMatchPrefixes) {
  EXPECT_FALSE(find_device("NVIDIA GeForce RTX 4090 Laptop GPU"));
  EXPECT_FALSE(find_device("a100_sxm_80gb_x"));
}

}  // namespace
}  // namespace rooftile
