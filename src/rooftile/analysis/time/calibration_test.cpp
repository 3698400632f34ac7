#include "rooftile/analysis/time/calibration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/analysis/time/section_reader.h"
#include "rooftile/analysis/time/section_text.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

TEST(Calibration, EveryEmbeddedFileIsWellFormed) {
  const std::vector<std::string> names = calibration_names();
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    EXPECT_EQ("sm" + std::to_string(std::stoi(name.substr(2))), name);
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
  EXPECT_EQ(name(60), "sm60");
  EXPECT_EQ(name(999), "sm120");
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

// "" where a section of H100 may have this value instead of its own.
std::string error_with(const char* section, const char* pointer, const std::string& value) {
  using nlohmann::json;
  json changed = json::parse(section_text("sm90", section).value().json);
  changed[json::json_pointer(pointer)] = json::parse(value);
  Device device = *find_device("h100_sxm");
  device.time_model = json{{section, changed}}.dump();
  const auto calibration = calibration_for(device);
  return calibration ? "" : calibration.error().message;
}

// The ends of a range and what lies just beyond them; a range from 0 on refuses what is negative.
TEST(Calibration, NumbersHaveRanges) {
  struct Case {
    const char *section, *pointer;
    double low, high;
  };
  const Case cases[] = {
      {"tensor_gemm", "/launch_s", 0, 1e18},
      {"tensor_gemm", "/dram_efficiency", 0.01, 1},
      {"tensor_gemm", "/in_core_efficiency", 0.01, 10},
      {"tensor_gemm", "/l2_speedup", 1, 1000},
      {"tensor_gemm", "/reference_flop_per_clock_and_sm", 1, 1e9},
      {"tensor_gemm", "/wave_sharpness", 0, 1},
      {"tensor_gemm", "/tile_edge_elements", 0, 1000},
      {"tensor_gemm", "/reference_watts_per_flop_per_s", 1e-15, 1},
      {"tensor_gemm", "/residual_widening", 1, 20},
      {"fp8_gemm", "/tile_rules/0/efficiency", 0.01, 10},
      {"cuda_gemm", "/tiles/0/slices", 1, 4096},
      {"alignment", "/sixteen_bit/0/operand_bytes_at_least", 0, 32},
      {"alignment", "/sixteen_bit/0/out_bytes_at_least", 0, 32},
      {"alignment", "/sixteen_bit/1/factor", 0.7, 1},
      {"alignment", "/sixteen_bit/1/low", 0.01, 0.84},
      {"alignment", "/sixteen_bit/1/high", 0.84, 1},
      {"stream", "/l2_sharpness", 1, 20},
      {"stream", "/walks/sorted/elements_per_clock", 0.001, 1000},
      {"attention", "/kernels/0/few_rows", 0, 4096},
      {"attention", "/kernels/0/few_keys", 1, 4096},
      {"attention", "/kernels/1/few_keys", 0, 4096},
  };
  for (const Case& c : cases) {
    const auto error = [&](double value) {
      return error_with(c.section, c.pointer, fmt::format("{}", value));
    };
    for (const double inside : {c.low, c.high}) EXPECT_EQ(error(inside), "") << c.pointer << inside;
    const double below = c.low > 0 ? 0.999 * c.low : -1e-9;
    for (const double outside : {below, 1.001 * c.high}) {
      EXPECT_NE(error(outside), "") << c.pointer << outside;
    }
  }
}

TEST(Calibration, SectionsAreReadStrictly) {
  struct Case {
    const char *section, *pointer, *value, *error;
  };
  const char* const tile = "\"tiles\": expected [rows, columns] or [rows, columns, pair]";
  const char* const rule = "\"tile\": expected [rows, columns] or [rows, columns, pair]";
  const char* const last = "\"tile_rules\": the last rule must hold for all";
  const char* const row = "\"tf32\": the last row must hold for all";
  const Case cases[] = {
      {"stream", "/origin", "3", "\"origin\": expected a text"},
      {"stream", "/origin", "\"\"", "\"origin\": expected a text"},
      {"stream", "/fitted_on", "[\"a100\"]", ""},
      {"stream", "/fitted_on", "{}", "\"fitted_on\": expected a list of texts"},
      {"stream", "/fitted_on", "[\"a100\", 1]", "\"fitted_on\": expected a list of texts"},
      {"stream", "/residual_of", "3", "\"residual_of\": expected a text"},
      {"stream", "/walks", "{}", "found no \"converting\", expected it"},
      {"stream", "/walks/other", "1", "found unknown key \"other\""},
      {"stream", "/walks/sorted/other", "1", "found unknown key \"other\""},
      {"stream", "/norm/other", "1", "found unknown key \"other\""},
      {"stream", "/norm/latency_s", "-1", "\"latency_s\": found -1, expected 0 to 1e+18"},
      {"stream", "/measured_over_predicted/other", "1", "found unknown key \"other\""},
      {"collective", "/pcie/other", "1", "found unknown key \"other\""},
      {"tensor_gemm", "/reference_inline_ecc", "0",
       "\"reference_inline_ecc\": expected true or false"},
      {"tensor_gemm", "/tiles", "3", "\"tiles\": expected a list"},
      {"tensor_gemm", "/tiles", "[]", "\"tiles\": expected a list"},
      {"tensor_gemm", "/tiles", "[3]", tile},
      {"tensor_gemm", "/tiles", "[[64]]", tile},
      {"tensor_gemm", "/tiles", "[[64, 64, 64, 64]]", tile},
      {"tensor_gemm", "/tiles", "[[64, -64]]", tile},
      {"tensor_gemm", "/tiles", "[[64, 0]]", tile},
      {"tensor_gemm", "/tiles", "[[64, 4097]]", tile},
      {"tensor_gemm", "/tiles", "[[1, 4096]]", ""},
      {"tensor_gemm", "/quantize", "{}", "found no \"launch_s\", expected it"},
      {"fp8_gemm", "/quantize/other", "1", "found unknown key \"other\""},
      {"fp8_gemm", "/tile_rules", "3", "\"tile_rules\": expected a list"},
      {"fp8_gemm", "/tile_rules", "[]", last},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [0, 64]}]", rule},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [64, 64], \"m_at_least\": 1}]", last},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [64, 64], \"m_at_most\": 1}]", last},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [64, 64], \"n_at_most\": 1}]", last},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [64, 64], \"k_at_least\": 1}]", last},
      {"fp8_gemm", "/tile_rules", "[{\"tile\": [64, 64]}]", ""},
      {"cuda_gemm", "/tiles", "3", "\"tiles\": expected a list"},
      {"cuda_gemm", "/batched_tiles", "[]", "\"batched_tiles\": expected a list"},
      {"cuda_gemm", "/tiles/0/other", "1", "found unknown key \"other\""},
      {"alignment", "/tf32", "3", "\"tf32\": expected a list"},
      {"alignment", "/tf32", "[]", row},
      {"alignment", "/tf32/2/operand_bytes_at_least", "2", row},
      {"alignment", "/tf32/2/out_bytes_at_least", "2", row},
      {"alignment", "/tf32/0/other", "1", "found unknown key \"other\""},
      {"convolution", "/cuda_kernel/tiles", "3", "\"tiles\": expected a list"},
      {"convolution", "/cuda_kernel/tiles", "[]", "\"tiles\": expected a list"},
      {"convolution", "/cuda_kernel/tiles", "[[64, 64, 64]]",
       "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[{}]", "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[[0, 64]]", "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[[64, 0]]", "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[[4097, 64]]", "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[[64, -64]]", "\"tiles\": expected [rows, columns]"},
      {"convolution", "/cuda_kernel/tiles", "[[4096, 1]]", ""},
      {"convolution", "/winograd/other", "1", "found unknown key \"other\""},
      {"attention", "/style", "\"flash_attention_1\"",
       "\"style\": expected flash_attention_2 or flash_attention_3"},
      {"attention", "/style", "\"flash_attention_2\"", ""},
      {"attention", "/kernels", "3", "\"kernels\": expected a list"},
      {"attention", "/kernels", "[]", "\"kernels\": expected a list"},
      {"attention", "/narrow_kernels", "[]", ""},
      {"attention", "/kernels/1/head_dim", "64", "\"kernels\": expected growing head_dim"},
      {"attention", "/kernels/1/other", "1", "found unknown key \"other\""},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(error_with(c.section, c.pointer, c.value), c.error) << c.pointer << " " << c.value;
  }
}

TEST(Calibration, ErrorsNameWhereTheyAre) {
  const auto where = [](const char* time_model) {
    Device device = *find_device("h100_sxm");
    device.time_model = time_model;
    const Error error = calibration_for(device).error();
    return error.where + ": " + error.message;
  };
  EXPECT_EQ(where("[]"), "h100_sxm, time_model: found no object, expected one");
  EXPECT_EQ(where(R"({"streams": {}})"), "h100_sxm, time_model: found unknown key \"streams\"");
  EXPECT_EQ(where(R"({"stream": {}})"),
            "h100_sxm, time_model, stream: found no \"origin\", expected it");
  EXPECT_EQ(where(R"({"stream": 1, "collective": 1})"),
            "h100_sxm, time_model, stream: found no object, expected one");
  EXPECT_EQ(where(R"({"pace": {"sm_clock": 1, "memory_clock": 1, "clock": 1}})"),
            "h100_sxm, time_model, pace: found unknown key \"clock\"");
}

TEST(Calibration, SectionsAreFollowedToTheirDonor) {
  const auto own = section_text("sm90", "stream"), borrowed = section_text("sm90", "convolution");
  ASSERT_TRUE(own && borrowed);
  EXPECT_TRUE(own->own);
  EXPECT_EQ(own->donor, "sm90");
  EXPECT_FALSE(borrowed->own);
  EXPECT_EQ(borrowed->donor, "sm70");
  EXPECT_EQ(borrowed->json.find("\"use\""), std::string::npos);
  EXPECT_EQ(section_text("sm90", "streams").error(),
            (Error{"found no section \"streams\", expected one", "sm90"}));
  EXPECT_EQ(section_text("sm1", "stream").error(),
            (Error{"found no section \"stream\", expected one", "sm1"}));
}

// A generation that borrows says why, how much wider its ranges are, and what a flop takes.
TEST(Calibration, BorrowedConstantsAreAnotherGenerations) {
  const auto hopper = *read_calibration("sm90"), volta = *read_calibration("sm70");
  EXPECT_GT(hopper.convolution.widening, 1);
  EXPECT_NE(hopper.convolution.origin, volta.convolution.origin);
  EXPECT_TRUE(hopper.convolution.origin.starts_with(volta.convolution.origin + "; "));
  EXPECT_EQ(hopper.convolution.constants.math_efficiency,
            volta.convolution.constants.math_efficiency);
  // GeForce Blackwell needs less energy for a flop than Ada.
  const auto ada = *read_calibration("sm89"), blackwell = *read_calibration("sm120");
  EXPECT_LT(blackwell.tensor_gemm.constants.reference_watts_per_flop_rate,
            0.9 * ada.tensor_gemm.constants.reference_watts_per_flop_rate);
  EXPECT_EQ(blackwell.tensor_gemm.constants.launch, ada.tensor_gemm.constants.launch);
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
