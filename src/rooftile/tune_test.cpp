#include "rooftile/tune.h"

#include <gtest/gtest.h>

#include <fstream>

#include "rooftile/rooftile.h"

namespace rooftile {
namespace {

std::string config_file(const std::string& name, int vocabulary, int layers) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "n_embd": 768, "n_head": 12, "n_positions": 1024, "torch_dtype": "bfloat16",
    "n_layer": )" << layers
                      << R"(, "vocab_size": )" << vocabulary << "}";
  return path;
}

TuneRequest training(const std::string& input) {
  TuneRequest request;
  request.input = input;
  request.read.mode = Mode::training;
  request.read.batch = 8;
  request.read.seq = 1024;
  return request;
}

Device a100() { return *find_device("a100_sxm_80gb"); }

// nanoGPT's author found a quarter of the time of GPT-2's training on an A100 in this change
// (A. Karpathy, February 2023).
TEST(Tune, PadsTheVocabularyOfGpt2) {
  TuneRequest request = training(config_file("tune_gpt2.json", 50257, 12));
  request.fixed = {{"hidden", 768}, {"n_layer", 12}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found) << to_string(found.error());
  ASSERT_TRUE(found->smallest);
  EXPECT_TRUE(found->smallest->is_padding());
  EXPECT_EQ(found->smallest->changes.front().to, 50304);
  EXPECT_GT(found->smallest->saving.expected, found->present.time * 0.25);
  EXPECT_EQ(verdict_of(*found), TuningVerdict::faster);
}

TEST(Tune, LeavesAWellShapedModelAlone) {
  TuneRequest request = training(config_file("tune_padded.json", 50304, 12));
  request.fixed = {{"hidden", 768}, {"layers", 12}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->smallest);
  EXPECT_NE(verdict_of(*found), TuningVerdict::faster);
}

TEST(Tune, KeepsToTheParameters) {
  TuneRequest request = training(config_file("tune_small.json", 50304, 6));
  request.parameters = 0.01;
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  EXPECT_GT(found->candidates, 1);
  for (const TunedShape& shape : found->front) {
    EXPECT_NEAR(shape.parameters / found->present.parameters, 1, 0.0101);
    EXPECT_LT(shape.time, found->present.time);
  }
}

TEST(Tune, SaysWhereThereIsNothingToCompareWith) {
  TuneRequest request = training(config_file("tune_alone.json", 50304, 12));
  request.fixed = {{"hidden", 768}, {"layers", 24}};  // twice the parameters
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  EXPECT_EQ(verdict_of(*found), TuningVerdict::alone);
}

TEST(Tune, RefusesWhatHasNoSizes) {
  EXPECT_FALSE(tune(training("gemm a bf16 m=8 n=8 k=8"), a100()));
  TuneRequest request = training(config_file("tune_names.json", 50304, 6));
  request.fixed = {{"width", 768}};
  const auto unknown = tune(request, a100());
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("hidden"), std::string::npos);
}

}  // namespace
}  // namespace rooftile
