#include "rooftile/hardware/device_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "rooftile/base/embedded.h"

namespace rooftile {
namespace {

using ::testing::HasSubstr;

// The smallest file that is accepted.
constexpr std::string_view kMinimal = R"({
  "name": "Test", "architecture": "ampere", "compute_capability": "8.0",
  "sms": 108, "boost_clock_hz": 1.41e9, "cuda_core_flop_per_s": {"fp32": 19.5e12},
  "dram_bandwidth_bytes_per_s": 1.555e12, "dram_size_bytes": 4e10, "l2_size_bytes": 4e7})";

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kMinimal);
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(ParseDevice, TakesPlainNumbers) {
  const Result<Device> device = parse_device(kMinimal, "folder/mine.json");
  ASSERT_TRUE(device) << to_string(device.error());
  EXPECT_EQ(device->id, "mine");
  EXPECT_EQ(device->compute_capability, 80);
  EXPECT_EQ(device->sms, 108);
  EXPECT_EQ(device->dram_bandwidth, BytesPerSecond(1.555e12));
  EXPECT_FALSE(device->power_limit);
}

TEST(ParseDevice, TakesSourcedNumbersAndIgnoresTheTimeModel) {
  const std::string text =
      replaced(R"("sms": 108)",
               R"("sms": {"value": 84, "source": "data sheet"}, "time_model": {"stream": {}})");
  const Result<Device> device = parse_device(text, "mine");
  ASSERT_TRUE(device) << to_string(device.error());
  EXPECT_EQ(device->sms, 84);
}

struct BadFile {
  const char* name;
  std::string text;
  const char* message;
};

class ParseDeviceError : public ::testing::TestWithParam<BadFile> {};

TEST_P(ParseDeviceError, SaysFoundExpectedAndWhere) {
  const Result<Device> device = parse_device(GetParam().text, "mine.json");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().where, "mine.json");
  EXPECT_THAT(device.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ParseDeviceError,
    ::testing::Values(
        BadFile{"empty", "", "not valid JSON near line 1"},
        BadFile{"foreign", "\xff\xd8\xff\xe0 JFIF", "not valid JSON"},
        BadFile{"list", "[1]", "expected a JSON object, found '[1]'"},
        BadFile{"deep", std::string(100000, '['), "nested deeper than 16 levels"},
        BadFile{"large", std::string(kMaxDeviceFileBytes + 1, ' '), "larger than 1048576 bytes"},
        BadFile{"huge_number", replaced("108", "1e999"), "not valid JSON"},
        BadFile{"missing", replaced(R"("sms": 108,)", ""), "'sms': missing"},
        BadFile{"no_fp32", replaced("fp32", "fp16"), "'cuda_core_flop_per_s.fp32': missing"},
        BadFile{"text", replaced("108", R"("108")"), "'sms': expected a number, found '\"108\"'"},
        BadFile{"negative", replaced("108", "-1"), "'sms': expected a whole number from 1 to 4096"},
        BadFile{"zero", replaced("1.555e12", "0"), "'dram_bandwidth_bytes_per_s': expected"},
        BadFile{"fraction", replaced("108", "1.5"), "found '1.5'"},
        BadFile{
            "megahertz", replaced("1.41e9", "1410"),
            "'boost_clock_hz': expected a number from 1e+08 to 1e+10, found '1410' (the unit is "
            "in the key)"},
        BadFile{"teraflops", replaced("19.5e12", "19.5"), "'cuda_core_flop_per_s.fp32': expected"},
        BadFile{"unknown_key", replaced("\"sms\"", "\"sm\""),
                "'sm': unknown key, did you mean sms?"},
        BadFile{"unknown_dtype", replaced(R"("fp32")", R"("fp32": 1e12, "fp33")"),
                "'cuda_core_flop_per_s.fp33': unknown key"},
        BadFile{"architecture", replaced("ampere", "rdna"), "expected one of"},
        BadFile{"capability", replaced("\"8.0\"", "\"eight\""), "as in \"9.0\", found 'eight'"},
        BadFile{"no_value", replaced("108", R"({"source": "x"})"), "expected a \"value\""},
        BadFile{"extra", replaced("108", R"({"value": 1, "unit": "x"})"),
                "'sms.unit': unknown key"},
        BadFile{"source", replaced("108", R"({"value": 1, "source": 2})"),
                "'sms.source': expected a text"},
        BadFile{"l2", replaced("4e7", "4e10"),
                "'l2_size_bytes': expected less than dram_size_bytes"},
        BadFile{"aliases", replaced(R"("sms")", R"("aliases": [1], "sms")"),
                "'aliases': expected a list of texts"},
        BadFile{"time_model", replaced(R"("sms")", R"("time_model": 3, "sms")"),
                "'time_model': expected an object"},
        BadFile{"mig",
                replaced(R"("sms")", R"("mig_profiles": {"1g": {"sms": 109, "memory_share": 1,
                                               "l2_share": 1}}, "sms")"),
                "'mig_profiles.1g.sms': expected a whole number from 1 to 108"}),
    [](const auto& test) { return test.param.name; });

TEST(ReadDeviceFile, NamesThePath) {
  EXPECT_EQ(read_device_file("/no/such/file.json").error().where, "/no/such/file.json");
  EXPECT_FALSE(read_device_file("/"));
}

TEST(ReadDeviceFile, ReadsAUsersFile) {
  const std::string path = ::testing::TempDir() + "/my_gpu.json";
  std::ofstream(path) << kMinimal;
  const Result<Device> device = read_device_file(path);
  std::remove(path.c_str());
  ASSERT_TRUE(device) << to_string(device.error());
  EXPECT_EQ(device->id, "my_gpu");
}

TEST(ParseDevice, TakesTheExampleOfItsDocumentation) {
  std::ifstream page(std::string(ROOFTILE_ROOT) + "/docs/formats/device.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::size_t begin = text.find("```json\n{");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t start = begin + std::string_view("```json\n").size();
  const Result<Device> device =
      parse_device(text.substr(start, text.find("```", start) - start), "x");
  EXPECT_TRUE(device) << to_string(device.error());
}

TEST(BuiltInDevices, AllParse) {
  for (const EmbeddedFile& file : embedded_devices()) {
    const Result<Device> device = parse_device(file.text, file.name);
    EXPECT_TRUE(device) << to_string(device.error());
  }
  EXPECT_EQ(built_in_devices().size(), embedded_devices().size());
  EXPECT_GE(built_in_devices().size(), 24u);
}

TEST(DeviceSources, EveryBuiltInNumberHasOne) {
  for (const Device& device : built_in_devices()) {
    const std::vector<SourcedNumber> numbers = device_sources(device.id);
    const std::size_t peaks = device.tensor_core_peak.size() + device.cuda_core_peak.size();
    const std::size_t optional_numbers = std::size_t{device.cuda_core_clock.has_value()} +
                                         std::size_t{device.shared_memory_per_sm.has_value()} +
                                         std::size_t{device.dram_ecc_share.has_value()} +
                                         std::size_t{device.dram_cpu_share.has_value()} +
                                         std::size_t{device.power_limit.has_value()} +
                                         std::size_t{device.nvlink_bandwidth.has_value()} +
                                         std::size_t{device.pcie_bandwidth.has_value()};
    EXPECT_EQ(numbers.size(), 5 + optional_numbers + peaks + 3 * device.mig_profiles.size())
        << device.id;
    for (const SourcedNumber& number : numbers) {
      EXPECT_GT(number.source.size(), 8u) << device.id << " " << number.key;
    }
  }
}

TEST(DeviceSources, KeepFileOrderAndFullKeys) {
  const std::vector<SourcedNumber> numbers = device_sources("h100_sxm");
  ASSERT_GE(numbers.size(), 4u);
  EXPECT_EQ(numbers[0].key, "sms");
  EXPECT_EQ(numbers[0].value, 132);
  EXPECT_EQ(numbers[3].key, "tensor_core_flop_per_s.fp64");
  EXPECT_TRUE(device_sources("no such GPU").empty());
}

}  // namespace
}  // namespace rooftile
