#include "rooftile/analysis/time/calibration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/analysis/time/section_reader.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

TEST(Calibration, EveryEmbeddedFileIsWellFormed) {
  const std::vector<std::string> names = calibration_names();
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    const auto calibration = read_calibration(name);
    ASSERT_TRUE(calibration) << to_string(calibration.error());
    EXPECT_FALSE(calibration->tensor_gemm.constants.tiles.size() == 0) << name;
    EXPECT_FALSE(calibration->tensor_gemm.origin.empty()) << name;
  }
}

TEST(Calibration, EveryBuiltInGpuHasOneOfItsGenerationOrAnOlderOne) {
  for (const Device& device : built_in_devices()) {
    const std::string name = calibration_for(device).value()->name;
    EXPECT_LE(std::stoi(name.substr(2)), device.compute_capability) << device.id;
  }
}

TEST(Calibration, FittedGpusExist) {
  const std::vector<Device>& devices = built_in_devices();
  for (const std::string& name : calibration_names()) {
    const auto calibration = read_calibration(name);
    ASSERT_TRUE(calibration);
    for (const std::vector<std::string>& ids :
         {calibration->tensor_gemm.fitted_on, calibration->fp8_gemm.fitted_on,
          calibration->cuda_gemm.fitted_on, calibration->stream.fitted_on,
          calibration->convolution.fitted_on, calibration->attention.fitted_on}) {
      for (const std::string& id : ids) {
        EXPECT_TRUE(std::ranges::any_of(devices, [&](const Device& d) { return d.id == id; }))
            << id;
      }
    }
  }
}

TEST(Calibration, GenerationByComputeCapability) {
  const auto name = [](int compute_capability) {
    Device device;
    device.compute_capability = compute_capability;
    return calibration_for(device).value()->name;
  };
  EXPECT_EQ(name(80), "sm80");
  EXPECT_EQ(name(87), "sm86");
  EXPECT_EQ(name(103), "sm100");
  EXPECT_EQ(name(50), "sm60");
}

TEST(Calibration, BorrowedSectionsAreWiderAndSaySo) {
  const auto blackwell = read_calibration("sm100");
  ASSERT_TRUE(blackwell);
  EXPECT_FALSE(blackwell->tensor_gemm.own);
  EXPECT_GT(blackwell->tensor_gemm.widening, 1.0);
  EXPECT_TRUE(read_calibration("sm90")->tensor_gemm.own);
}

std::string error_of(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  SectionReader reader(json, "test");
  RecurrentConstants constants;
  read_constants(reader, constants);
  const auto error = reader.finish();
  return error ? error->message : "";
}

TEST(Calibration, ReadingIsStrict) {
  constexpr const char* kGood =
      R"({"step_s": 1e-6, "persistent_step_s": 2e-6, "small_step_s": 5e-7, "persistent_math_efficiency": 0.5,
          "step_measured_over_predicted": [0.5, 2], "measured_over_predicted": [0.9, 1.1]})";
  EXPECT_EQ(error_of(kGood), "");
  EXPECT_EQ(error_of("[]"), "found no object, expected one");
  EXPECT_EQ(error_of("{}"), "found no \"step_s\", expected it");
  EXPECT_EQ(error_of(R"({"step_s": "x"})"), "\"step_s\": expected a number");
  EXPECT_EQ(error_of(R"({"step_s": 1e-6, "persistent_step_s": 2e-6, "small_step_s": 5e-7,
                         "persistent_math_efficiency": 7})"),
            "\"persistent_math_efficiency\": found 7, expected 0.01 to 1");
  EXPECT_EQ(error_of(R"({"step_s": 1e-6, "persistent_step_s": 2e-6, "small_step_s": 5e-7,
                         "persistent_math_efficiency": 0.5,
                         "step_measured_over_predicted": [0.5, 2],
                         "measured_over_predicted": [1.1, 0.9]})"),
            "\"measured_over_predicted\": expected 0 < low <= 1 <= high");
  EXPECT_EQ(error_of(R"({"step_s": 1e-6, "persistent_step_s": 2e-6, "small_step_s": 5e-7,
                         "persistent_math_efficiency": 0.5,
                         "step_measured_over_predicted": [0.5, 2],
                         "measured_over_predicted": [0.9, 1.1], "steep_s": 1})"),
            "found unknown key \"steep_s\"");
}

TEST(Calibration, IntervalsHoldOne) {
  const auto interval_error = [](std::string_view interval) {
    return error_of(
        fmt::format(R"({{"step_s": 1e-6, "persistent_step_s": 2e-6, "small_step_s": 5e-7,
                                     "persistent_math_efficiency": 0.5,
                                     "step_measured_over_predicted": [0.5, 2],
                                     "measured_over_predicted": {}}})",
                    interval));
  };
  EXPECT_EQ(interval_error("[1, 1]"), "");
  for (const std::string_view without : {"[0, 1.1]", "[1.01, 1.1]", "[0.9, 0.99]"}) {
    EXPECT_EQ(interval_error(without),
              "\"measured_over_predicted\": expected 0 < low <= 1 <= high");
  }
  for (const std::string_view other : {"1", "[0.9]", "[0.9, 1, 1.1]", "[0.9, \"x\"]"}) {
    EXPECT_EQ(interval_error(other), "\"measured_over_predicted\": expected [low, high]");
  }
}

// `key` and `value` say the kernels of the section.
Device with_section(const char* section, const char* key, const std::string& value) {
  Device device = *find_device("h100_sxm");
  device.time_model = fmt::format(
      R"({{"{}": {{"origin": "x", "launch_s": 2e-6, "latency_per_k_s": 1e-9,
      "prologue_s": 1e-7, "epilogue_of_128x128_s": 1e-6, "in_core_efficiency": 1,
      "tile_edge_elements": 1, "operand_port_bytes_per_s": 1e11, "sustained_efficiency": 0.8,
      "sustained_decline": 0.03, "dram_efficiency": 0.8, "dram_latency_s": 1e-6,
      "wave_sharpness": 1, "split_launch_s": 2e-6, "l2_speedup": 2, "l2_share": 0.5,
      "operand_sets": 6, "reference_boost_clock_hz": 1.83e9,
      "reference_watts_per_flop_per_s": 7e-13, "reference_flop_per_clock_and_sm": 4094,
      "reference_inline_ecc": false,
      "measured_over_predicted": {{"latency": [0.9, 1.1], "memory": [0.9, 1.1],
      "math": [0.9, 1.1]}}, "{}": {}}}, "residual": false}})",
      section, key, value);
  return device;
}

std::string section_error(const char* section, const char* key, const std::string& value) {
  const auto calibration = calibration_for(with_section(section, key, value));
  return calibration ? "" : calibration.error().message;
}

std::string rule_error(const char* rules) { return section_error("fp8_gemm", "tile_rules", rules); }

TEST(Calibration, TileRulesEndWithOneForAll) {
  EXPECT_EQ(rule_error(R"([{"m_at_most": 64, "tile": [64, 64]}, {"tile": [128, 128, 256]}])"), "");
  EXPECT_EQ(rule_error(R"([{"m_at_most": 64, "tile": [64, 64]}])"),
            "\"tile_rules\": the last rule must hold for all");
  EXPECT_EQ(rule_error(R"([{"tile": [64]}])"),
            "\"tile\": expected [rows, columns] or [rows, columns, pair]");
  EXPECT_EQ(rule_error(R"([{"tile": [64, 64], "rows": 1}])"), "found unknown key \"rows\"");
}

TEST(Calibration, TilesAreAShortList) {
  const auto tiles = [](int count) {
    std::string list = "[[128, 128]";
    for (int i = 1; i < count; ++i) list += ", [64, 64]";
    return section_error("tensor_gemm", "tiles", list + "]");
  };
  EXPECT_EQ(tiles(32), "");
  EXPECT_NE(tiles(33).find("found 33, expected at most 32"), std::string::npos) << tiles(33);
}

TEST(Calibration, TilesThatAreAllTooHighStillHaveATime) {
  const TimeModel model(with_section("tensor_gemm", "tiles", "[[256, 128], [128, 256]]"));
  const auto workload = parse_workload("gemm few_rows bf16 m=2 n=4096 k=4096");
  ASSERT_TRUE(workload);
  const auto estimate = model.estimate(workload->ops.front());
  ASSERT_TRUE(estimate);
  EXPECT_GT(estimate->time.expected.value(), 1e-6);
  EXPECT_LT(estimate->time.expected.value(), 1e-3);
}

TEST(Calibration, UnknownNamesAreErrors) {
  EXPECT_EQ(read_calibration("sm1").error().message, "found no such calibration file");
}

}  // namespace
}  // namespace rooftile
