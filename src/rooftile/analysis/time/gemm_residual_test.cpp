#include "rooftile/analysis/time/gemm_residual.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rooftile/base/embedded.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile {
namespace {

// One split of log2(m) at 10: 0.2 below, -0.9 above; the limit is 0.3.
std::string file_text(std::string_view trees = "[[-1,0.1],[0,10.0,-1,0.1,-1,-1.0]]",
                      std::string_view m = "[16,4096]") {
  return fmt::format(
      R"({{"gpu": "a100_sxm_80gb", "applies_to": ["a100_sxm_80gb"], "product": "bf16",
           "origin": "test", "m": {}, "n": [32,1024], "k": [32,1024], "limit": 0.3,
           "measured_over_predicted": {{"latency": [0.9,1.1], "memory": [0.9,1.1],
                                        "math": [0.9,1.1]}},
           "features": ["{}"], "trees": {}}})",
      m, fmt::join(kResidualFeatures, "\", \""), trees);
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
}

}  // namespace
}  // namespace rooftile
