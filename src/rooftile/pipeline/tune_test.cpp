#include "rooftile/pipeline/tune.h"

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
    EXPECT_LT(shape.per_sample, found->present.per_sample);
  }
}

TEST(Tune, SaysWhereThereIsNothingToCompareWith) {
  TuneRequest request = training(config_file("tune_alone.json", 50304, 12));
  request.fixed = {{"hidden", 768}, {"layers", 24}};  // twice the parameters
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  EXPECT_EQ(verdict_of(*found), TuningVerdict::alone);
}

// 128 tokens leave an A100 waiting for weights: more of them are nearly free.
TEST(Tune, ALargerBatchComesBeforeOtherSizes) {
  TuneRequest request = training(config_file("tune_batch.json", 50304, 12));
  request.read.batch = 1;
  request.read.seq = 128;
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->smallest);
  EXPECT_TRUE(found->smallest->keeps_model());
  EXPECT_GT(found->smallest->batch, 1);
  EXPECT_EQ(found->larger_batch, found->smallest->batch);
  if (found->smallest_at_batch) EXPECT_EQ(found->smallest_at_batch->batch, 1);
  ASSERT_TRUE(found->same_sizes);
  EXPECT_TRUE(found->same_sizes->keeps_sizes());
  EXPECT_EQ(found->same_sizes->sizes_gain(), 0);
  EXPECT_NE(render_tuning_text(*found, {}).find("gradient accumulation"), std::string::npos);
}

// A shape at another batch is compared with the present sizes at that batch as well.
TEST(Tune, TellsTheGainOfTheBatchFromThatOfTheSizes) {
  TuneRequest request = training(config_file("tune_apart.json", 50257, 12));
  request.read.mode = Mode::inference;
  request.read.batch = 1;
  request.read.seq = 128;
  request.fixed = {{"hidden", 768}, {"layers", 12}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  TuneRequest held = request;
  bool compared = false;
  for (const TunedShape& shape : found->front) {
    if (shape.batch == 1) continue;
    held.read.batch = shape.batch;
    held.fixed = {{"hidden", 768}, {"layers", 12}, {"batch", shape.batch}};
    const auto there = tune(held, a100());
    ASSERT_TRUE(there);
    EXPECT_NEAR(shape.sizes_gain(), 1 - shape.time / there->present.time, 1e-9);
    EXPECT_LT(shape.present_at_batch, found->present.per_sample);
    compared = true;
    break;
  }
  EXPECT_TRUE(compared);
  const std::string text = render_tuning_text(*found, {});
  EXPECT_NE(text.find("sizes alone"), std::string::npos);
  EXPECT_NE(text.find("The front: shapes that no other one"), std::string::npos);
}

TEST(Tune, KeepsAFixedBatch) {
  TuneRequest request = training(config_file("tune_held.json", 50304, 12));
  request.read.batch = 1;
  request.read.seq = 128;
  request.fixed = {{"batch", 1}, {"layers", 12}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  for (const TunedShape& shape : found->front) EXPECT_EQ(shape.batch, 1);
  EXPECT_FALSE(found->larger_batch);
  request.read.batch.reset();
  request.fixed = {{"batch", 4}, {"hidden", 768}, {"layers", 12}};
  EXPECT_EQ(tune(request, a100())->batch, 4);
}

TEST(Tune, WhatDoesNotFitIsNotOnTheFront) {
  TuneRequest request = training(config_file("tune_large.json", 50304, 12));
  request.read.batch = 512;
  request.fixed = {{"hidden", 768}};
  const auto found = tune(request, *find_device("t4"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->present.fit, "does_not_fit");
  EXPECT_EQ(verdict_of(*found), TuningVerdict::too_large);
  EXPECT_TRUE(found->smallest->keeps_model());
  EXPECT_LT(found->smallest->batch, 512);
  EXPECT_NE(found->smallest->fit, "does_not_fit");
  EXPECT_GT(found->too_large, 0);
  for (const TunedShape& shape : found->front) EXPECT_NE(shape.fit, "does_not_fit");
}

// 12 layers of 7 billion parameters take 16 bytes each in training: far more than 80 GB.
TEST(Tune, SaysWhereNothingFits) {
  const std::string path = testing::TempDir() + "tune_huge.json";
  std::ofstream(path) << R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "n_embd": 24576, "n_head": 192, "n_positions": 1024, "torch_dtype": "bfloat16",
    "n_layer": 12, "vocab_size": 50257})";
  TuneRequest request = training(path);
  request.fixed = {{"hidden", 24576}, {"layers", 12}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(verdict_of(*found), TuningVerdict::nothing_fits);
  EXPECT_FALSE(found->smallest);
  ASSERT_FALSE(found->front.empty());
  for (const TunedShape& shape : found->front) {
    EXPECT_EQ(shape.fit, "does_not_fit");
    EXPECT_LT(shape.per_sample, found->present.per_sample);
  }
  const std::string text = render_tuning_text(*found, {});
  EXPECT_NE(text.find("Nothing fits one GPU"), std::string::npos) << text;
  EXPECT_NE(found->makes_it_fit.find("GPUs with FSDP"), std::string::npos);
}

TEST(Tune, AnotherPrecisionComesFirst) {
  TuneRequest request = training(config_file("tune_fp32.json", 50304, 12));
  request.read.dtype = Dtype::fp32;
  request.fixed = {{"hidden", 768}, {"layers", 12}, {"batch", 8}};
  const auto found = tune(request, a100());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->first.size(), 1U);
  EXPECT_EQ(found->first.front().rule, "precision/fp32-on-tensor-core-gpu");
  const std::string text = render_tuning_text(*found, {});
  EXPECT_LT(text.find("precision/fp32-on-tensor-core-gpu"), text.find("as it is"));
  request.read.dtype = Dtype::bf16;
  EXPECT_TRUE(tune(request, a100())->first.empty());
}

TEST(Tune, RefusesWhatHasNoSizes) {
  EXPECT_FALSE(tune(training("gemm a bf16 m=8 n=8 k=8"), a100()));
  TuneRequest request = training(config_file("tune_names.json", 50304, 6));
  request.fixed = {{"width", 768}};
  const auto unknown = tune(request, a100());
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("hidden"), std::string::npos);
}

// BERT's 30522 words to 30528, which costs nothing and is worth little in fp32: a row of its own
// says how much.
TEST(Tune, APaddedVocabularyHasARow) {
  const std::string path = testing::TempDir() + "tune_bert.json";
  std::ofstream(path) << R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
    "hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 12,
    "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512})";
  TuneRequest request = training(path);
  request.read.seq = 128;
  const auto found = tune(request, *find_device("v100_sxm2"));
  ASSERT_TRUE(found) << to_string(found.error());
  ASSERT_TRUE(found->padded);
  ASSERT_EQ(found->padded->changes.size(), 1U);
  EXPECT_EQ(found->padded->changes.front().to, 30528);
  const std::string shown = render_tuning_text(*found, {});
  EXPECT_NE(shown.find("\nvocabulary 30522 → 30528 "), std::string::npos) << shown;
  const auto whole = tune(training(config_file("tune_even.json", 50304, 2)), a100());
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->padded);
}

}  // namespace
}  // namespace rooftile
