#include "rooftile/analysis/time/gemm_residual.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "rooftile/base/embedded.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

// One split of log2(m) at 10: 0.2 below, -0.9 above; the limit is 0.3.
std::string file_text(std::string_view trees = "[[-1,0.1],[0,10.0,-1,0.1,-1,-1.0]]",
                      std::string_view m = "[16,4096]",
                      std::size_t features = kResidualFeatures.size()) {
  const auto names = std::span(kResidualFeatures).first(features);
  return fmt::format(
      R"({{"gpu": "a100_sxm_80gb", "applies_to": ["a100_sxm_80gb"], "product": "bf16",
           "origin": "test", "m": {}, "n": [32,1024], "k": [32,1024], "limit": 0.3,
           "measured_over_predicted": {{"latency": [0.9,1.1], "memory": [0.9,1.1],
                                        "math": [0.9,1.1]}},
           "features": ["{}"], "trees": {}}})",
      m, fmt::join(names, "\", \""), trees);
}

GemmWork work_of(double m) {
  GemmWork work;
  work.m = m, work.n = 64, work.k = 64;
  return work;
}

double factor_at(double m) {
  const auto model = read_residual("test", file_text());
  ResidualFeatures features{};
  features[0] = static_cast<float>(std::log2(m));
  return model->factor(features, work_of(m));
}

TEST(GemmResidual, SumsItsTreesUpToTheLimit) {
  EXPECT_NEAR(factor_at(512), std::exp(0.2), 1e-6);
  EXPECT_NEAR(factor_at(1024), std::exp(0.2), 1e-6);  // the threshold belongs to the left
  EXPECT_NEAR(factor_at(2048), std::exp(-0.3), 1e-6);
}

TEST(GemmResidual, ManyTreesStayBelowTheLimit) {
  const auto model = read_residual("test", file_text("[[-1,0.25],[-1,0.25]]"));
  EXPECT_NEAR(model->factor({}, work_of(512)), std::exp(0.3), 1e-6);
}

TEST(GemmResidual, FadesOverHalfAnOctaveBeyondItsSupport) {
  EXPECT_NEAR(factor_at(4096 * std::exp2(0.25)), std::exp(-0.15), 1e-6);
  EXPECT_EQ(factor_at(4096 * 1.5), 1);
  EXPECT_NEAR(factor_at(16 / std::exp2(0.25)), std::exp(0.1), 1e-6);
  EXPECT_EQ(factor_at(8), 1);
}

TEST(GemmResidual, ReadingIsStrict) {
  const auto error = [](const std::string& text) {
    const auto model = read_residual("test", text);
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(error(file_text()), "");
  EXPECT_EQ(error("[]"), "found no JSON object, expected one");
  EXPECT_EQ(error(file_text("[[0,1.0,-1,0.1]]")), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[99,1.0,-1,0.1,-1,0.1]]")), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[-1,0.1,5]]")), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[]", "[0,5]")), "\"m\": expected 1 <= low <= high");
}

// Later features are not part of older files.
TEST(GemmResidual, AFileNamesTheFirstFeatures) {
  EXPECT_TRUE(read_residual("test", file_text("[]", "[1,5]", 16)));
  std::string swapped = file_text("[]", "[1,5]", 2);
  swapped.replace(swapped.find("log2_n"), 6, "log2_k");
  const auto model = read_residual("test", swapped);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            "\"features\": expected the first of the library's, in their order");
}

TEST(GemmResidual, BatchesAreASizeLikeOthers) {
  std::string text = file_text();
  text.insert(text.find("\"limit\""), "\"batch\": [2,64], ");
  const auto model = read_residual("test", text);
  ASSERT_TRUE(model);
  GemmWork work = work_of(512);
  EXPECT_FALSE(model->supports(work, 50));  // a batch of one
  EXPECT_EQ(model->factor({}, work), 1);
  work.batch = 64;
  EXPECT_TRUE(model->supports(work, 50));
  EXPECT_NEAR(model->factor({}, work), std::exp(0.2), 1e-6);
  EXPECT_FALSE(read_residual("test", file_text())->supports(work, 50));  // made for single ones
}

// The tree's leaf below its split is 0.2 for features of 0; log2_us is the seventh feature.
TEST(GemmResidual, ShortKernelsMayBeUnknown) {
  std::string text = file_text();
  text.insert(text.find("\"limit\""), "\"us\": [64,1000], ");
  const auto model = read_residual("test", text);
  ASSERT_TRUE(model);
  const auto factor = [&](float log2_us) {
    ResidualFeatures features{};
    features[6] = log2_us;
    return model->factor(features, work_of(512));
  };
  EXPECT_NEAR(factor(6), std::exp(0.2), 1e-6);
  EXPECT_NEAR(factor(5.75), std::exp(0.1), 1e-6);
  EXPECT_EQ(factor(5), 1);
  EXPECT_TRUE(model->supports(work_of(512), 64));
  EXPECT_FALSE(model->supports(work_of(512), 63));
}

// Bits of m=6, n=24, k=35 by hand: 24 = 3·8, 35 is odd; 4 products of 24 · 6 · 35.
TEST(GemmResidual, FeaturesOfBatches) {
  GemmWork work;
  work.m = 6, work.n = 24, work.k = 35, work.batch = 4;
  GemmParts parts;
  parts.tile.tile = {8, 8};
  parts.total = parts.best = 1e-5;
  const ResidualFeatures features = residual_features(work, parts, 12);
  const auto at = [&](std::string_view name) {
    const auto found = std::ranges::find(kResidualFeatures, name);
    return features[static_cast<std::size_t>(found - kResidualFeatures.begin())];
  };
  EXPECT_FLOAT_EQ(at("log2_batch"), 2);
  EXPECT_FLOAT_EQ(at("log2_blocks"), 0);  // 4 · 1 · 3 tiles on 12 SMs
  EXPECT_FLOAT_EQ(at("n_alignment"), 8);
  EXPECT_FLOAT_EQ(at("k_alignment"), 1);
  EXPECT_FLOAT_EQ(at("choice_spread"), 1);
}

// 1 x 3 tiles of 8 x 8, each in two parts, on 12 SMs: half a wave of one product.
TEST(GemmResidual, FeaturesByHand) {
  GemmWork work;
  work.m = 6, work.n = 24, work.k = 35, work.batch = 4;
  work.operand_bytes = 1024;
  GemmParts parts;
  parts.tile.tile = {8, 8};
  parts.split_k = 2;
  parts.compute = 4e-6, parts.memory = 2e-6, parts.power = 1e-6;
  parts.total = 8e-6, parts.best = 4e-6;
  const float expected[] = {2.5849625F, 4.5849625F, 5.129283F, -1,    -2, -3, 3, 3, 3, 1,
                            -1,         0.5F,       2,         0.75F, 1,  10, 2, 1, 8, 1};
  const ResidualFeatures features = residual_features(work, parts, 12);
  ASSERT_EQ(features.size(), std::size(expected));
  for (std::size_t i = 0; i < features.size(); ++i) {
    EXPECT_NEAR(features[i], expected[i], 1e-5) << kResidualFeatures[i];
  }
  work.n = 96, work.k = 16;
  EXPECT_EQ(residual_features(work, parts, 12)[18], 16) << "at most";
  EXPECT_EQ(residual_features(work, parts, 12)[19], 16);
  const GemmParts nothing{.tile = parts.tile, .total = 1};
  EXPECT_NEAR(residual_features(work, nothing, 12)[3], std::log2(1e-12), 1e-3) << "not none";
}

TEST(GemmResidual, ReadsSupportsAndDevices) {
  const auto error = [](std::string text, const std::string& old, const std::string& other) {
    text.replace(text.find(old), old.size(), other);
    const auto model = read_residual("test", text);
    return model ? "" : model.error().message;
  };
  const std::string ids = "[\"a100_sxm_80gb\"]";
  for (const char* other : {"3", "[1]", "[1,2,3]", "[\"a\",2]", "[1,\"a\"]"}) {
    EXPECT_EQ(error(file_text("[]", other), "x", "x"), "\"m\": expected [low, high]") << other;
  }
  EXPECT_EQ(error(file_text("[]", "[5,4]"), "x", "x"), "\"m\": expected 1 <= low <= high");
  EXPECT_EQ(error(file_text("[]", "[1,1]"), "x", "x"), "");
  EXPECT_EQ(error(file_text(), ids, "3"), "\"applies_to\": expected device ids");
  EXPECT_EQ(error(file_text(), ids, "[3]"), "\"applies_to\": expected device ids");
  EXPECT_EQ(error(file_text(), ids, "[]"), "");
  EXPECT_EQ(error(file_text("3"), "x", "x"), "\"trees\": expected a list");
  EXPECT_EQ(error(file_text("[3]"), "x", "x"), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[-2,1.0]]"), "x", "x"), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[-1.5,1.0]]"), "x", "x"), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[-1,\"a\"]]"), "x", "x"), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[-1]]"), "x", "x"), "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[20,1.0,-1,0.1,-1,0.1]]"), "x", "x"),
            "\"trees\": found a broken tree");
  EXPECT_EQ(error(file_text("[[19,1.0,-1,0.1,-1,0.1]]"), "x", "x"), "");
  EXPECT_EQ(error(file_text(), "0.3", "1.1"), "\"limit\": found 1.1, expected 0 to 1");
  EXPECT_EQ(error(file_text(), "\"features\": [", "\"features\": 3, \"other\": ["),
            "\"features\": expected the first of the library's, in their order");
}

TEST(GemmResidual, EveryEmbeddedFileIsWellFormedAndSmall) {
  for (const EmbeddedFile& file : embedded_residuals()) {
    const auto model = read_residual(file.name, file.text);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_TRUE(find_device(model->gpu)) << file.name;
    for (const std::string& id : model->applies_to) EXPECT_TRUE(find_device(id)) << id;
    EXPECT_EQ(file.name, model->gpu + "_" + model->product);
    EXPECT_LE(model->roots.size(), 101u);
    EXPECT_LT(file.text.size(), 50'000u);
  }
}

TEST(GemmResidual, HoldsForTheFittedGpuAndItsSisters) {
  EXPECT_TRUE(residual_for("h100_sxm", "bf16"));
  EXPECT_TRUE(residual_for("h200_sxm", "bf16"));
  EXPECT_TRUE(residual_for("h100_sxm", "fp8_quantized"));
  EXPECT_FALSE(residual_for("v100_sxm2", "bf16"));
  EXPECT_FALSE(residual_for("rtx_4090", "bf16"));
  for (const char* product : {"fp32_linear", "fp32_bmm"}) {
    for (const char* id : {"p100_pcie", "p4", "v100_pcie_32gb", "v100_pcie", "t4", "a100_pcie_40gb",
                           "a100_pcie_80gb", "a100_sxm_40gb", "a100_sxm_80gb"}) {
      EXPECT_TRUE(residual_for(id, product)) << id;
    }
    for (const char* id : {"p100_sxm2", "v100_sxm2", "a30", "h100_sxm", "rtx_4090"}) {
      EXPECT_FALSE(residual_for(id, product)) << id;
    }
  }
}

}  // namespace
}  // namespace rooftile
