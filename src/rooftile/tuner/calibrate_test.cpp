#include "rooftile/tuner/calibrate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "rooftile/analysis/time/section_text.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"
#include "rooftile/tuner/calibrated_section.h"
#include "rooftile/tuner/calibration_start.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using Json = nlohmann::json;

// Without the learned corrections, which calibrated constants do not have.
Device l40s() {
  Device device = find_device("l40s").value();
  device.time_model = R"({"residual": false})";
  return device;
}

// An L40S whose kernels differ from the built-in constants by known factors.
Device changed_l40s(const std::string& key, const std::map<std::string, double>& factors) {
  Device device = l40s();
  Json section = Json::parse(section_text("sm89", key).value().json);
  for (const auto& [name, factor] : factors) {
    section[name] = section[name].get<double>() * factor;
  }
  device.time_model = Json{{key, section}}.dump();
  return device;
}

std::vector<Op> ops(const std::vector<std::string>& lines) {
  std::vector<Op> all;
  for (const std::string& line : lines) {
    const auto parsed = parse_workload(line);
    EXPECT_TRUE(parsed) << line;
    if (parsed) all.insert(all.end(), parsed->ops.begin(), parsed->ops.end());
  }
  return all;
}

// Products of all regimes, drawn from common sizes.
std::vector<Op> products(std::size_t count, unsigned seed, std::string_view dtype = "bf16") {
  std::mt19937 random(seed);
  const auto size = [&](int low, int high) {
    return std::int64_t{1} << (low +
                               static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(
        fmt::format("gemm p{} {} m={} n={} k={}", i, dtype, size(0, 13), size(5, 13), size(5, 13)));
  }
  return ops(lines);
}

void measure_on(const Device& truth, std::vector<Op>& points, double noise, unsigned seed) {
  const TimeModel model = TimeModel::create(truth).value();
  std::mt19937 random(seed);
  std::normal_distribution<double> error(0, noise);
  for (Op& op : points) op.measured = model.estimate(op)->time.expected * std::exp(error(random));
}

double mean_error(const Device& device, const std::vector<Op>& points) {
  const TimeModel model = TimeModel::create(device).value();
  double sum = 0;
  for (const Op& op : points) sum += std::abs(model.estimate(op)->time.expected / *op.measured - 1);
  return sum / static_cast<double>(points.size());
}

TEST(Calibrate, EveryTunedConstantIsAKeyOfTheBuiltInSections) {
  for (const CalibratedSection& section : calibrated_sections()) {
    for (const char* name : {"sm80", "sm89", "sm90"}) {
      const Json json = Json::parse(section_text(name, section.key).value().json);
      for (const TunedConstant& tuned : section.constants) {
        const Json::json_pointer pointer(tuned.pointer);
        ASSERT_TRUE(json.contains(pointer)) << name << " " << section.key << tuned.pointer;
        const double value = json[pointer];
        EXPECT_TRUE(value == 0 || value >= tuned.low)
            << name << " " << section.key << tuned.pointer;
        EXPECT_LE(value, tuned.high) << name << " " << section.key << tuned.pointer;
      }
    }
  }
}

TEST(Calibrate, FindsChangedConstantsInNoisyProducts) {
  const Device truth = changed_l40s("tensor_gemm", {{"launch_s", 1.4},
                                                    {"sustained_efficiency", 0.8},
                                                    {"dram_efficiency", 0.9},
                                                    {"latency_per_k_s", 1.5}});
  std::vector<Op> seen = products(60, 1), unseen = products(300, 2);
  measure_on(truth, seen, 0.03, 3);
  measure_on(truth, unseen, 0, 4);
  const auto result = calibrate(l40s(), seen);
  ASSERT_TRUE(result) << to_string(result.error());
  Device calibrated = l40s();
  calibrated.time_model = result->time_model;
  EXPECT_GT(mean_error(l40s(), unseen), 0.12);
  EXPECT_LT(mean_error(calibrated, unseen), 0.04);
}

// The device's numbers are those of the data sheet; it runs at 0.6 of one of its clocks.
struct SlowGpu {
  const char* what;
  const char* gpu;
  const char* dtype;
  std::function<void(Device&)> slow_down;
  Pace pace;
};

class CalibrateSlowGpu : public testing::TestWithParam<SlowGpu> {};

TEST_P(CalibrateSlowGpu, FollowsItsClocksWithFewPoints) {
  const SlowGpu& gpu = GetParam();
  Device nominal = find_device(gpu.gpu).value();
  nominal.time_model = R"({"residual": false})";
  Device truth = nominal;
  gpu.slow_down(truth);
  std::vector<Op> seen = products(50, 23, gpu.dtype), unseen = products(300, 24, gpu.dtype);
  measure_on(truth, seen, 0.03, 25);
  measure_on(truth, unseen, 0, 26);
  const auto result = calibrate(nominal, seen);
  ASSERT_TRUE(result) << to_string(result.error());
  Device calibrated = nominal;
  calibrated.time_model = result->time_model;
  const double before = mean_error(nominal, unseen), after = mean_error(calibrated, unseen);
  EXPECT_GT(before, 0.08);
  EXPECT_LT(after, before / 2);
  EXPECT_LT(after, 0.08);
  EXPECT_NEAR(result->sections[0].paces.of(gpu.pace), 0.6, 0.15);
}

// What no section describes follows: the forward pass of fused attention waits for the Tensor
// Cores.
TEST(Calibrate, OtherKernelsFollowTheClocksThatWereFound) {
  const Device nominal = find_device("h100_sxm").value();
  Device slow = nominal;
  slow.boost_clock = slow.boost_clock * 0.6;
  for (auto& [dtype, peak] : slow.tensor_core_peak) peak = peak * 0.6;
  const std::vector<Op> attention =
      ops({"attention a bf16 batch=4 heads=32 q=8192 d=128 kv_heads=8 causal=1"});
  const auto seconds = [&](const Device& device) {
    return TimeModel::create(device)->estimate(attention[0])->time.expected.value();
  };
  std::vector<Op> seen = products(50, 23);
  measure_on(nominal, seen, 0.03, 25);
  Device calibrated = nominal;
  calibrated.time_model = calibrate(nominal, seen)->time_model;
  EXPECT_EQ(seconds(calibrated), seconds(nominal));
  measure_on(slow, seen, 0.03, 25);
  calibrated.time_model = calibrate(nominal, seen)->time_model;
  EXPECT_NEAR(seconds(calibrated) / seconds(slow), 1, 0.15);
  EXPECT_GT(seconds(slow) / seconds(nominal), 1.5);
  const Range<Seconds> time = TimeModel::create(calibrated)->estimate(attention[0])->time;
  EXPECT_LT(time.low.value(), seconds(slow));
  EXPECT_GT(time.high.value(), seconds(slow));
}

void lower_sm_clock(Device& device) {
  device.boost_clock = device.boost_clock * 0.6;
  for (auto* peaks : {&device.tensor_core_peak, &device.cuda_core_peak}) {
    for (auto& [dtype, peak] : *peaks) peak = peak * 0.6;
  }
}
void lower_memory_clock(Device& device) { device.dram_bandwidth = device.dram_bandwidth * 0.6; }

INSTANTIATE_TEST_SUITE_P(
    Clocks, CalibrateSlowGpu,
    testing::Values(
        SlowGpu{"sm_h100", "h100_sxm", "bf16", lower_sm_clock, Pace::sm_clock},
        SlowGpu{"memory_h100", "h100_sxm", "bf16", lower_memory_clock, Pace::memory_clock},
        SlowGpu{"sm_a100", "a100_sxm_80gb", "bf16", lower_sm_clock, Pace::sm_clock},
        SlowGpu{"memory_a100", "a100_sxm_80gb", "bf16", lower_memory_clock, Pace::memory_clock},
        SlowGpu{"sm_v100", "v100_pcie_32gb", "fp32", lower_sm_clock, Pace::sm_clock},
        SlowGpu{"memory_t4", "t4", "fp32", lower_memory_clock, Pace::memory_clock}),
    [](const auto& info) { return std::string(info.param.what); });

TEST(Calibrate, StartsFromTheNearestOfAllGenerationsForAnUnknownOne) {
  Device unknown = l40s();
  unknown.compute_capability = 120;  // has no constants of its own
  std::vector<Op> seen = products(50, 5);
  measure_on(l40s(), seen, 0.02, 6);
  const auto result = calibrate(unknown, seen);
  ASSERT_TRUE(result) << to_string(result.error());
  ASSERT_EQ(result->sections.size(), 1U);
  EXPECT_EQ(result->sections[0].donor, "sm89");
  EXPECT_LT(result->sections[0].after.mean, 0.05);
}

// Constants of another generation may be far off: only those of the own one are nearly known.
TEST(Calibrate, OnlyTheOwnGenerationIsNearlyKnown) {
  const auto is_own = [](const char* gpu, const char* donor) {
    return start_from(*find_device(gpu), "tensor_gemm", donor)->own;
  };
  EXPECT_TRUE(is_own("l40s", "sm89"));
  EXPECT_TRUE(is_own("h200_sxm", "sm90"));
  EXPECT_FALSE(is_own("l40s", "sm80"));
  EXPECT_FALSE(is_own("rtx_pro_6000", "sm89"));  // which it borrows
  EXPECT_FALSE(is_own("b200", "sm90"));
}

// Few scattered points do not tell generations apart: what starts from each has a say.
TEST(Calibrate, FitsOfOtherGenerationsCountWhereTheyAreAboutAsGood) {
  Device unknown = l40s();
  unknown.compute_capability = 120;
  std::vector<Op> few = products(8, 5), many = products(400, 5);
  measure_on(l40s(), few, 0.3, 6);
  measure_on(l40s(), many, 0.02, 6);
  const auto alternatives = [&](const std::vector<Op>& points) {
    const auto result = calibrate(unknown, points);
    EXPECT_TRUE(result) << to_string(result.error());
    return Json::parse(result->time_model)["tensor_gemm"].value("alternatives", Json::array());
  };
  const Json found = alternatives(few);
  ASSERT_FALSE(found.empty());
  for (const Json& entry : found) {
    EXPECT_GT(entry["weight"].get<double>(), 0);
    EXPECT_LE(entry["weight"].get<double>(), 1);
  }
  EXPECT_TRUE(alternatives(many).empty());
}

// A GPU that corrections were learned on is predicted no worse for having been calibrated.
TEST(Calibrate, LearnedCorrectionsStayInForce) {
  const Device a100 = find_device("a100_sxm_80gb").value();
  std::vector<Op> seen = products(50, 19), unseen = products(200, 20);
  measure_on(a100, seen, 0.02, 21);
  measure_on(a100, unseen, 0, 22);
  const auto once = calibrate(a100, seen);
  ASSERT_TRUE(once) << to_string(once.error());
  Device calibrated = a100;
  calibrated.time_model = once->time_model;
  EXPECT_LT(mean_error(calibrated, unseen), 0.02);
  const Json section = Json::parse(once->time_model)["tensor_gemm"];
  EXPECT_EQ(section["residual_of"], "a100_sxm_80gb");
  EXPECT_EQ(section["residual_widening"], 1.2);
  // The device file has another name; what it says of itself counts when it is measured again.
  calibrated.id = "mine";
  const auto twice = calibrate(calibrated, seen);
  ASSERT_TRUE(twice);
  EXPECT_EQ(Json::parse(twice->time_model)["tensor_gemm"]["residual_of"], "a100_sxm_80gb");
  calibrated.time_model = twice->time_model;
  EXPECT_LT(mean_error(calibrated, unseen), 0.02);
}

TEST(Calibrate, IntervalsOfLearnedCorrectionsHoldWhereTheyWereLearnedAlone) {
  std::vector<Op> points = products(50, 19);
  const auto section_on = [&](Device device) {
    measure_on(device, points, 0.02, 21);
    return Json::parse(calibrate(device, points).value().time_model)["tensor_gemm"];
  };
  const Device h200 = find_device("h200_sxm").value();
  EXPECT_EQ(section_on(h200)["residual_of"], "h200_sxm");
  EXPECT_FALSE(section_on(h200).contains("residual_widening"));
  EXPECT_FALSE(section_on(l40s()).contains("residual_of"));
}

TEST(Calibrate, FitsEachSectionToItsOwnPoints) {
  const Device truth = changed_l40s("stream", {{"dram_efficiency", 0.8}, {"launch_s", 1.5}});
  std::vector<Op> points = products(20, 7, "fp32");
  for (Op& op :
       ops({"elementwise a bf16 fn=add elements=67108864 inputs=2",
            "elementwise b bf16 fn=add elements=33554432 inputs=2",
            "elementwise c fp32 fn=relu elements=134217728",
            "elementwise d bf16 fn=relu elements=1024", "elementwise e bf16 fn=relu elements=4096",
            "cast f fp32 out_dtype=bf16 elements=67108864"})) {
    points.push_back(std::move(op));
  }
  measure_on(truth, points, 0, 8);
  const auto result = calibrate(l40s(), points);
  ASSERT_TRUE(result) << to_string(result.error());
  ASSERT_EQ(result->sections.size(), 2U);
  EXPECT_EQ(result->sections[0].key, "cuda_gemm");
  EXPECT_EQ(result->sections[1].key, "stream");
  EXPECT_LT(result->sections[1].after.mean, 0.03);
  EXPECT_LT(result->sections[1].after.mean, result->sections[1].before.mean / 3);
}

TEST(Calibrate, IntervalsAreTheDonorsWidenedUntilThereAreManyPoints) {
  const Json donor = Json::parse(section_text("sm89", "tensor_gemm").value().json);
  std::vector<Op> few = products(40, 9), many = products(250, 10);
  measure_on(l40s(), few, 0.05, 11);
  measure_on(l40s(), many, 0.05, 12);
  const auto from_few = calibrate(l40s(), few), from_many = calibrate(l40s(), many);
  ASSERT_TRUE(from_few && from_many);
  const auto interval = [](const std::string& text) {
    return Json::parse(text)["tensor_gemm"]["measured_over_predicted"]["memory"];
  };
  const double high = donor["measured_over_predicted"]["memory"][1];
  EXPECT_NEAR(interval(from_few->time_model)[1].get<double>(), std::pow(high, 1.2), 0.002);
  // 95 % quantile of 5 % noise is 1.645 * 5 %, times 1.2.
  EXPECT_NEAR(std::log(interval(from_many->time_model)[1].get<double>()), 1.2 * 1.645 * 0.05, 0.04);
}

TEST(Calibrate, CountsPointsThatFitNoSection) {
  std::vector<Op> points = products(10, 13);
  measure_on(l40s(), points, 0, 14);
  for (Op& op : ops({"gemm odd bf16 m=64 n=63 k=64 measured_s=1e-5",
                     "gemm gradient bf16 m=64 n=64 k=64 phase=dgrad measured_s=1e-5",
                     "gemm eight int8 m=64 n=64 k=64 measured_s=1e-5",
                     "gemm unmeasured bf16 m=64 n=64 k=64"})) {
    points.push_back(std::move(op));
  }
  const auto result = calibrate(l40s(), points);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->sections[0].points, 11U);  // a gradient is a product like any other
  EXPECT_EQ(result->unused, 3U);
}

TEST(Calibrate, TooFewPointsAreAnError) {
  std::vector<Op> points = products(kMinCalibrationPoints - 1, 15);
  measure_on(l40s(), points, 0, 16);
  const auto result = calibrate(l40s(), points);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("5 measured points"), std::string::npos);
  EXPECT_FALSE(calibrate(l40s(), {}));
}

TEST(Calibrate, PointsThatNoConstantsExplainAreAnError) {
  std::vector<Op> points = products(20, 19);
  measure_on(l40s(), points, 0.05, 20);
  ASSERT_TRUE(calibrate(l40s(), points));
  for (Op& op : points) op.measured = *op.measured * 1000.0;  // milliseconds
  const auto result = calibrate(l40s(), points);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().where, "tensor_gemm");
  EXPECT_NE(result.error().message.find("20 points at 1e+03 times"), std::string::npos)
      << result.error().message;
}

TEST(Calibrate, UnknownDonorsAreAnError) {
  std::vector<Op> points = products(10, 17);
  measure_on(l40s(), points, 0, 18);
  EXPECT_FALSE(calibrate(l40s(), points, {.donors = {"sm42"}, .origin = "test"}));
}

}  // namespace
}  // namespace rooftile
