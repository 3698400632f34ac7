// Matrix products on Tensor Cores: transfers between GPUs, alignment, quantization and learned
// corrections.
#include "rooftile/analysis/time/product_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "rooftile/analysis/time/gemm_time.h"
#include "rooftile/analysis/time/section_text.h"
#include "rooftile/analysis/time/time_model.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

Op gemm_op(std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype = Dtype::bf16) {
  Op op;
  op.body = Gemm{.m = m, .n = n, .k = k};
  op.dtypes = Dtypes(dtype);
  return op;
}

double time_of(const TimeModel& model, const Op& op) {
  return model.estimate(op)->time.expected.value();
}

struct Change {
  const char* name;
  void (*apply)(Device&);
};

// More of everything that a faster GPU has.
constexpr Change kFaster[] = {
    {"bandwidth", [](Device& d) { d.dram_bandwidth = d.dram_bandwidth * 1.5; }},
    {"compute",
     [](Device& d) {
       for (auto& [dtype, peak] : d.tensor_core_peak) peak = peak * 1.5;
       d.power_limit = *d.power_limit * 1.5;
     }},
    {"SMs",
     [](Device& d) {
       for (auto& [dtype, peak] : d.tensor_core_peak) peak = peak * 2;
       d.power_limit = *d.power_limit * 2;
       d.sms *= 2;
     }},
    {"power", [](Device& d) { d.power_limit = *d.power_limit * 1.5; }},
};

// Linear layers of every regime.
std::vector<Op> linear_layers() {
  std::vector<Op> ops;
  for (std::int64_t m : {1, 16, 100, 128, 640, 1024, 2305, 4096}) {
    for (std::int64_t n : {64, 768, 3072, 5120, 12288}) {
      for (std::int64_t k : {64, 1000, 4096, 16384}) ops.push_back(gemm_op(m, n, k));
    }
  }
  return ops;
}

TEST(Products, LearnedCorrectionsDoNotMakeAFasterGpuSlower) {
  for (const char* name : {"a100", "h100", "l40s"}) {
    const Device slow = *find_device(name);
    for (const Change& change : kFaster) {
      Device fast = slow;
      change.apply(fast);
      const TimeModel before(slow), after(fast);
      for (const Op& op : linear_layers()) {
        const auto& gemm = std::get<Gemm>(op.body);
        EXPECT_LE(time_of(after, op), time_of(before, op) * 1.03)
            << name << ", more " << change.name << ": " << gemm.m << " " << gemm.n << " " << gemm.k;
      }
    }
  }
}

TimeModel without_residual(const char* name) {
  Device device = *find_device(name);
  device.time_model = R"({"residual": false})";
  return TimeModel(device);
}

TEST(Products, LearnedCorrectionsCanBeSwitchedOff) {
  const Op op = gemm_op(2048, 4096, 4096);
  const auto with = TimeModel(*find_device("a100")).estimate(op);
  const auto without = without_residual("a100").estimate(op);
  EXPECT_EQ(without->learned, 1);
  EXPECT_NE(with->learned, 1);
  EXPECT_NEAR(with->time.expected / without->time.expected, with->learned, 1e-9);
  EXPECT_NEAR(with->compute / without->compute, with->learned, 1e-9);
}

TEST(Products, LearnedCorrectionsHoldForMeasuredProductsAlone) {
  const auto learned = [](const char* gpu, const Op& op) {
    return TimeModel(*find_device(gpu)).estimate(op)->learned;
  };
  Op batched = gemm_op(2048, 4096, 4096), transposed = batched, gradient = batched;
  std::get<Gemm>(batched.body).batch = 8;
  std::get<Gemm>(transposed.body).layout = GemmLayout::nn;
  gradient.phase = Phase::wgrad;
  EXPECT_EQ(learned("a100", batched), 1);
  EXPECT_EQ(learned("a100", transposed), 1);
  EXPECT_EQ(learned("a100", gradient), 1);
  EXPECT_EQ(learned("a100", gemm_op(2048, 4096, 4096, Dtype::tf32)), 1);
  EXPECT_EQ(learned("a100", gemm_op(2048, 1 << 18, 4096)), 1);  // beyond the measured sizes
  EXPECT_EQ(learned("rtx_4090", gemm_op(2048, 4096, 4096)), 1);
  EXPECT_NE(learned("h200", gemm_op(2048, 4096, 4096)), 1);
}

TEST(Products, TheSwitchIsTrueOrFalse) {
  Device device = *find_device("a100");
  device.time_model = R"({"residual": 1})";
  const auto model = TimeModel::create(device);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "\"residual\": expected true or false");
}

TEST(Products, PacesAreFactors) {
  Device device = *find_device("a100");
  device.time_model = R"({"pace": {"sm_clock": 0, "memory_clock": 1}})";
  const auto model = TimeModel::create(device);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "\"sm_clock\": found 0, expected 0.01 to 10");
  EXPECT_TRUE(model.error().where.ends_with("time_model, pace")) << model.error().where;
  device.time_model = R"({"pace": 1})";
  EXPECT_FALSE(TimeModel::create(device));
}

// NVIDIA Ada GPU Architecture white paper: 165.2 TFLOP/s in bf16 at boost clock and 1008 GB/s. The
// board has more power per rate than L40S, whose constants it takes, and no ECC in its memory.
// Layers of Llama-3.1-8B reach 161 to 166 of them (casys-kaist/LLMServingSim).
TEST(Products, ABoardWithPowerToSpareComesNearItsPeak) {
  const TimeModel rtx_4090(*find_device("rtx_4090"));
  const double flop = 2.0 * 4096 * 8192 * 4096;
  EXPECT_NEAR(flop / time_of(rtx_4090, gemm_op(4096, 8192, 4096)) / 165.2e12, 0.98, 0.06);
  const double bytes = 2.0 * 16384 * 8192;
  EXPECT_NEAR(bytes / time_of(rtx_4090, gemm_op(1, 16384, 8192)) / 1008e9, 0.9, 0.06);
}

// The clock and the power of another GPU change all of them alike.
TEST(Products, AlternativesAreAWeightedMean) {
  using nlohmann::json;
  json section = json::parse(section_text("sm90", "tensor_gemm").value().json);
  json other = section;
  other.erase("origin");
  other.erase("fitted_on");
  other["dram_efficiency"] = 0.4;
  other["weight"] = 0.5;
  json slow = section, both = section;
  slow["dram_efficiency"] = 0.4;
  both["alternatives"] = json::array({other});
  for (const char* gpu : {"h100_sxm", "h100_pcie"}) {
    for (const Op& op : {gemm_op(16, 12288, 12288), gemm_op(8192, 8192, 8192)}) {
      const auto time_with = [&](const json& tensor_gemm) {
        Device device = *find_device(gpu);
        device.time_model = json{{"tensor_gemm", tensor_gemm}}.dump();
        return time_of(TimeModel::create(device).value(), op);
      };
      const double first = time_with(section), second = time_with(slow);
      const bool waits_for_memory = std::get<Gemm>(op.body).m == 16;
      EXPECT_EQ(second > 1.5 * first, waits_for_memory) << gpu;
      EXPECT_NEAR(time_with(both), std::pow(first * std::sqrt(second), 1 / 1.5), 1e-3 * first)
          << gpu;
    }
  }
}

TEST(Products, AlternativesAreReadStrictly) {
  const auto error_of = [](const char* alternatives) {
    nlohmann::json section =
        nlohmann::json::parse(section_text("sm90", "tensor_gemm").value().json);
    section["alternatives"] = nlohmann::json::parse(alternatives);
    Device device = *find_device("h100_sxm");
    device.time_model = nlohmann::json{{"tensor_gemm", section}}.dump();
    const auto model = TimeModel::create(device);
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error_of("[]"), "");
  EXPECT_EQ(error_of("3"), "\"alternatives\": expected a list of at most 16");
  EXPECT_NE(error_of("[{}]").find("weight"), std::string::npos);
  EXPECT_NE(error_of("[3]"), "");
  std::string many = "[{}";
  for (int i = 1; i < 16; ++i) many += ",{}";
  EXPECT_NE(error_of((many + "]").c_str()).find("weight"), std::string::npos);
  EXPECT_EQ(error_of((many + ",{}]").c_str()), "\"alternatives\": expected a list of at most 16");
}

// 512 flop a clock and SM where L40S, whose constants it takes, has 1,011.
TEST(Products, SmallTilesLoseLessWhereTensorCoresAreSlower) {
  const GemmConstants l40s = calibration_for(*find_device("l40s")).value()->tensor_gemm.constants;
  const auto edge_on = [&](const char* name) {
    return scale_constants(l40s, *find_device(name)).tile_edge_elements;
  };
  EXPECT_EQ(edge_on("l40s"), l40s.tile_edge_elements);
  EXPECT_NEAR(edge_on("rtx_4090"), 512.0 / 1011 * l40s.tile_edge_elements, 0.01);
  EXPECT_EQ(edge_on("h100_sxm"), l40s.tile_edge_elements);
}

// Activations in bf16 and weights in fp8: the activations are scaled row by row first.
TEST(Products, QuantizedLayersPayForTheirActivations) {
  const TimeModel h100(*find_device("h100_sxm"));
  Op quantized = gemm_op(4096, 4096, 4096);
  quantized.dtypes.weight = Dtype::fp8;
  const double pure = time_of(h100, gemm_op(4096, 4096, 4096, Dtype::fp8));
  EXPECT_GT(time_of(h100, quantized), 1.1 * pure);
  Op large = gemm_op(8192, 16384, 16384);
  large.dtypes.weight = Dtype::fp8;
  EXPECT_LT(time_of(h100, large), time_of(h100, gemm_op(8192, 16384, 16384)));
  // No fp8 on A100: the weights are only read.
  Op few = gemm_op(1, 16384, 16384);
  const double wide = time_of(TimeModel(*find_device("a100")), few);
  few.dtypes.weight = Dtype::fp8;
  EXPECT_LT(time_of(TimeModel(*find_device("a100")), few), 0.7 * wide);
}

// Tiles and waves alone: the kernel model never gains by more work. Libraries do, by their choice
// of kernel, and the learned corrections follow them within their limit.
TEST(Products, TimeOfAProductGrowsFinely) {
  constexpr double kWaveSlack = 1.05, kLearnedSlack = 1.7;
  for (const char* name : {"a100", "h100", "l40s"}) {
    const TimeModel with(*find_device(name)), without = without_residual(name);
    for (const Op& op : linear_layers()) {
      Op more_m = op, more_n = op, more_k = op;
      std::get<Gemm>(more_m.body).m += 1 + std::get<Gemm>(op.body).m / 4;
      std::get<Gemm>(more_n.body).n += std::get<Gemm>(op.body).n / 4;
      std::get<Gemm>(more_k.body).k += std::get<Gemm>(op.body).k / 4;
      for (const Op& more : {more_m, more_n, more_k}) {
        const auto& gemm = std::get<Gemm>(more.body);
        SCOPED_TRACE(fmt::format("{} {} {} {}", name, gemm.m, gemm.n, gemm.k));
        EXPECT_LE(time_of(without, op), kWaveSlack * time_of(without, more));
        EXPECT_LE(time_of(with, op), kLearnedSlack * time_of(with, more));
      }
    }
  }
}

// Large bf16 products on A100, medians of public measurements: rows of 16 bytes 223 TFLOP/s, of 4
// or 8 bytes 138, of 2 bytes in an operand 87, in the output alone 71; fp32 does not mind.
TEST(Products, AlignmentOnA100) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  const auto slowdown = [&](std::int64_t n, std::int64_t k, Dtype dtype) {
    return time_of(a100, gemm_op(8192, n, k, dtype)) /
           time_of(a100, gemm_op(8192, 8192, 8192, dtype));
  };
  EXPECT_NEAR(slowdown(8190, 8190, Dtype::bf16), 223.0 / 138, 0.15);
  EXPECT_NEAR(slowdown(8192, 8191, Dtype::bf16), 223.0 / 87, 0.25);
  EXPECT_NEAR(slowdown(8191, 8192, Dtype::bf16), 223.0 / 71, 0.3);
  EXPECT_NEAR(slowdown(8191, 8191, Dtype::fp32), 1.0, 0.02);
}

// Rows of 32 bytes have one known factor in tf32, those of 16 a range.
TEST(Products, Tf32MindsRowsOfThirtyTwoBytes) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  struct Case {
    std::int64_t Gemm::*size;
    std::int64_t fits, half;
  };
  const Case cases[] = {{&Gemm::x_offset, 8, 4},       {&Gemm::w_offset, 8, 4},
                        {&Gemm::out_offset, 8, 4},     {&Gemm::x_stride, 8200, 8196},
                        {&Gemm::w_stride, 8200, 8196}, {&Gemm::out_stride, 8200, 8196},
                        {&Gemm::k, 8200, 8196},        {&Gemm::n, 8200, 8196}};
  for (const Case& c : cases) {
    const auto slowest = [&](std::int64_t size) {
      Op op = gemm_op(8192, 8192, 8192, Dtype::tf32);
      std::get<Gemm>(op.body).*c.size = size;
      return a100.estimate(op)->own_effects.high;
    };
    EXPECT_EQ(slowest(c.fits), 1.0) << &c - cases;
    EXPECT_GT(slowest(c.half), 1.05) << &c - cases;
  }
}

// S. Bekman, Machine Learning Engineering, SwiGLU MLP of width 4096 on H100: 398.4 TFLOP/s with
// 10944 columns, 272.7 with 10922, whose rows are aligned to 4 bytes only.
TEST(Products, AlignmentOnH100) {
  const TimeModel h100(*find_device("h100_sxm"));
  const auto mlp = [&](std::int64_t width) {
    return *h100.estimate(gemm_op(8192, width, 4096)) * 2 +
           *h100.estimate(gemm_op(8192, 4096, width));
  };
  const TimeEstimate odd = mlp(10922), even = mlp(10944);
  EXPECT_NEAR(odd.time.expected / even.time.expected, 1.461, 0.1);
  EXPECT_LT(odd.own_effects.low, 1.0);
  EXPECT_GT(odd.own_effects.high, 1.0);
}

// Padding m leaves every row stride as it is; an odd m costs its tile only.
TEST(Products, AnOddTokenCountHasNoAlignmentPenalty) {
  const TimeModel a100(*find_device("a100_sxm_80gb"));
  EXPECT_EQ(a100.estimate(gemm_op(4095, 4096, 4096))->own_effects.high, 1.0);
}

TEST(Products, EccAmongTheDataCostsBandwidth) {
  Device with = *find_device("l40s");
  Device without = with;
  without.dram_ecc_share.reset();
  const Op op = gemm_op(1, 16384, 16384);
  const double ratio = time_of(TimeModel(with), op) / time_of(TimeModel(without), op);
  EXPECT_GT(ratio, 1.1);
  EXPECT_LT(ratio, 1.25);
}

// Published bf16 rates of cuBLAS at 8192 cubed: RTX PRO 6000 Server Edition 417 TFLOP/s
// (zzc0721/torch-performance-test-data), Max-Q 229 (waynehacking8/blackwell-tensorcore-kernels).
TEST(Products, BlackwellWorkstationRates) {
  const auto rate = [](const char* gpu) {
    const double flop = 2.0 * 8192 * 8192 * 8192;
    return flop / time_of(TimeModel(*find_device(gpu)), gemm_op(8192, 8192, 8192)) / 1e12;
  };
  EXPECT_NEAR(rate("rtx_pro_6000_server"), 417, 40);
  EXPECT_NEAR(rate("rtx_pro_6000_max_q"), 229, 25);
}

TEST(Saving, WhatOnlyLearnedCorrectionsSeeIsNotCertain) {
  TimeEstimate slow, fast;
  slow.time = {Seconds(0.98e-3), Seconds(1e-3), Seconds(1.02e-3)};
  fast.time = slow.time * 0.8;
  slow.bound = fast.bound = Bound::math;
  EXPECT_GT(estimate_saving(slow, fast).low.value(), 0);
  slow.learned = 1.25;  // the kernel model alone sees no difference
  EXPECT_LE(estimate_saving(slow, fast).low.value(), 0);
  EXPECT_NEAR(estimate_saving(slow, fast).expected.value(), 0.2e-3, 1e-12);
}

// 4096 x 4095 x 4096 on T4 is 137.4 GFLOP: 2.11 ms at the 65 TFLOP/s of its Tensor Cores, which the
// padded product cannot save.
TEST(Saving, LeavesTheRooflineOfWhatRemains) {
  const TimeModel t4(*find_device("t4"));
  const TimeEstimate odd = *t4.estimate(gemm_op(4096, 4095, 4096, Dtype::fp16));
  const TimeEstimate even = *t4.estimate(gemm_op(4096, 4096, 4096, Dtype::fp16));
  EXPECT_NEAR(even.floor.value(), 2.11e-3, 0.01e-3);
  EXPECT_LE(estimate_saving(odd, even).high.value(), odd.time.expected.value() - 2.11e-3);
  EXPECT_GE(even.time.low, even.floor);
}

// 300 MB read and 300 MB written at the 2.039 TB/s of an A100's data sheet take 0.294 ms; its 42 MB
// of L2 may hold a part.
TEST(Saving, LeavesTheTrafficThatRemains) {
  const TimeModel a100(*find_device("a100"));
  Op op;
  op.body = Elementwise{.fn = "relu", .elements = 150'000'000, .inputs = 1};
  op.dtypes = Dtypes(Dtype::fp16);
  EXPECT_NEAR(a100.estimate(op)->floor.value(), (600e6 - 41.9e6) / 2.039e12, 1e-6);
}

TEST(Saving, WhatAnotherGenerationDonatedIsMostlyShared) {
  TimeEstimate slow, fast;
  slow.time = {Seconds(0.5e-3), Seconds(1e-3), Seconds(2e-3)};
  fast.time = slow.time * 0.5;
  slow.bound = fast.bound = Bound::math;
  EXPECT_LT(estimate_saving(slow, fast).low.value(), 0);
  slow.unshared = fast.unshared = 0.5;
  EXPECT_GT(estimate_saving(slow, fast).low.value(), 0);
}

// From Ampere on, Tensor Cores multiply fp16 and bf16 at one rate (data sheets), with kernels that
// differ in the type alone.
TEST(Products, Fp16IsBf16FromAmpereOn) {
  for (const char* name : {"a100", "h100", "h200", "l40s", "a10g", "b200"}) {
    const TimeModel model(*find_device(name));
    for (Op op : linear_layers()) {
      const TimeEstimate bf16 = *model.estimate(op);
      op.dtypes = Dtypes(Dtype::fp16);
      const TimeEstimate fp16 = *model.estimate(op);
      EXPECT_EQ(fp16.time.expected, bf16.time.expected) << name;
      EXPECT_EQ(fp16.time.high, bf16.time.high) << name;
    }
  }
}

// NVIDIA, Matrix Multiplication Background User's Guide, wave quantization on A100: n = 1536 fills
// one wave of tiles and 1600 starts a second one, at 1.89 times the time in fp16.
TEST(Products, ASecondWaveInFp16) {
  const TimeModel a100(*find_device("a100"));
  const double one = time_of(a100, gemm_op(2304, 1536, 4096, Dtype::fp16));
  EXPECT_NEAR(time_of(a100, gemm_op(2304, 1600, 4096, Dtype::fp16)) / one, 1.89, 0.1);
}

}  // namespace
}  // namespace rooftile
