// Speech encoders: what the lengths of audio and the switches of the convolutions mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

json speech(const json& changed = json::object()) {
  json config = json::parse(R"({"model_type": "wav2vec2", "architectures": ["Wav2Vec2Model"],
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96})");
  config.update(changed);
  return config;
}

Result<Workload> read(const json& config, std::optional<std::int64_t> frames = {}) {
  ReadOptions options;
  options.seq = frames;
  return parse_hf_config(config.dump(), "config.json", options);
}

std::int64_t parameters(const json& changed) { return *read(speech(changed))->parameters; }

std::string dims(const Workload& workload, const std::string& name) {
  for (const Op& op : workload.ops) {
    if (op.name == name) return dims_text(op.body);
  }
  return "no operation " + name;
}

// The kernels of 10 to 2 samples and strides of 5 and six times 2 of Baevski et al. 2020, 4.2.
TEST(Speech, SevenConvolutionsMakeFramesOf20Milliseconds) {
  const auto workload = read(speech());
  ASSERT_TRUE(workload) << to_string(workload.error());
  const std::string at = "wav2vec2.feature_extractor.conv_layers.";
  EXPECT_EQ(dims(*workload, at + "0.conv"), "n=1 c=1 k=512 in=160000 kernel=10 stride=5");
  EXPECT_EQ(dims(*workload, at + "0.conv_norm"), "fn=group rows=512 cols=31999");
  EXPECT_EQ(dims(*workload, at + "0.conv_activation"), "fn=gelu elements=16383488");
  EXPECT_EQ(dims(*workload, at + "1.conv"), "n=1 c=512 k=512 in=31999 kernel=3 stride=2");
  EXPECT_EQ(dims(*workload, at + "1.conv_norm"), "no operation " + at + "1.conv_norm");
  EXPECT_EQ(dims(*workload, at + "6.conv"), "n=1 c=512 k=512 in=999 kernel=2 stride=2");
  EXPECT_EQ(dims(*workload, "wav2vec2.feature_projection.layer_norm"),
            "fn=layer rows=499 cols=512");
  EXPECT_EQ(dims(*workload, "wav2vec2.feature_projection.projection"), "m=499 n=64 k=512 bias=1");
  EXPECT_EQ(workload->sequence, 499);
}

TEST(Speech, PositionsAreAConvolutionAroundEachFrame) {
  const std::string name = "wav2vec2.encoder.pos_conv_embed.conv";
  const auto even = read(speech()), odd = read(speech({{"num_conv_pos_embeddings", 127}}));
  ASSERT_TRUE(even && odd);
  EXPECT_EQ(dims(*even, name),
            "n=1 c=64 k=64 in=499 kernel=128 pad=64 pad_end=63 groups=16 bias=1");
  EXPECT_EQ(dims(*odd, name), "n=1 c=64 k=64 in=499 kernel=127 pad=63 groups=16 bias=1");
  EXPECT_EQ(dims(*even, name + "_residual"), "fn=add elements=31936 inputs=2");
  // A tap of 64 channels that see 4 each, and its norm.
  EXPECT_EQ(*even->parameters - *odd->parameters, 64 * 4 + 1);
}

TEST(Speech, SwitchesOfTheConvolutionsAddWeights) {
  const std::int64_t usual = parameters(json::object());
  EXPECT_EQ(parameters({{"conv_bias", true}}) - usual, 7 * 512);
  EXPECT_EQ(parameters({{"feat_extract_norm", "layer"}}) - usual, 6 * 2 * 512);
  EXPECT_EQ(parameters({{"num_conv_pos_embedding_groups", 8}}) - usual, 64 * 4 * 128);
  const json hubert{{"model_type", "hubert"}};
  json bare = hubert;
  bare["feat_proj_layer_norm"] = false;
  EXPECT_EQ(parameters(hubert), usual);
  EXPECT_EQ(parameters(bare) - usual, -2 * 512);
  // A table of 320 distances; in each layer 4 factors and 8 gates of 16 channels and a bias.
  EXPECT_EQ(parameters({{"model_type", "wavlm"}}) - usual, 320 * 4 + 2 * (4 + 8 * 16 + 8));
}

TEST(Speech, NormsStandBeforeTheBlocksOfStableLayers) {
  const auto order = [](bool stable) {
    const auto workload = read(speech({{"do_stable_layer_norm", stable}}));
    std::vector<std::string> norms;
    for (const Op& op : workload->ops) {
      const bool of_encoder = op.name.find(".encoder.") != std::string::npos;
      if (of_encoder && std::holds_alternative<Normalization>(op.body)) norms.push_back(op.name);
    }
    return norms;
  };
  const std::string encoder = "wav2vec2.encoder.layer_norm",
                    first = "wav2vec2.encoder.layers.{0-1}.layer_norm",
                    second = "wav2vec2.encoder.layers.{0-1}.final_layer_norm";
  EXPECT_EQ(order(false), (std::vector<std::string>{encoder, first, second}));
  EXPECT_EQ(order(true), (std::vector<std::string>{first, second, encoder}));
}

TEST(Speech, AnAdapterIsLeftOut) {
  EXPECT_TRUE(read(speech())->skipped.empty());
  EXPECT_EQ(read(speech({{"add_adapter", true}}))->skipped.at("adapter"), 1);
}

// 400 samples make the first frame, each 320 more another one; a billion samples are the most.
TEST(Speech, FramesHaveALength) {
  const auto notes = [](std::int64_t frames) { return read(speech(), frames)->notes; };
  EXPECT_THAT(notes(1), Contains("--seq 1 is the number of feature frames: 0.03 s of audio at "
                                 "16 kHz, 400 samples"));
  EXPECT_THAT(notes(2), Contains("--seq 2 is the number of feature frames: 0.04 s of audio at "
                                 "16 kHz, 720 samples"));
  EXPECT_THAT(notes(3'124'999), Contains(HasSubstr("999999760 samples")));
  const auto longer = read(speech(), 3'125'000);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message,
            "--seq 3125000: that many frames need more than a billion samples");
}

// Strides of 4096 leave 39 of 160,000 samples.
TEST(Speech, ConvolutionsLeaveAFrame) {
  const auto problem = [](std::vector<int> channels, std::vector<int> kernels,
                          std::vector<int> strides) {
    const auto workload =
        read(speech({{"conv_dim", channels}, {"conv_kernel", kernels}, {"conv_stride", strides}}));
    return workload ? std::string("read") : workload.error().message;
  };
  EXPECT_EQ(problem({8, 8}, {4096, 39}, {4096, 1}), "read");
  EXPECT_EQ(problem({8, 8}, {4096, 40}, {4096, 1}),
            "conv_kernel and conv_stride leave no frame of 10 s of audio");
  const std::string range = "conv_kernel and conv_stride: expected sizes from 1 to 4096";
  EXPECT_EQ(problem({0}, {1}, {1}), range);
  EXPECT_EQ(problem({8}, {0}, {1}), range);
  EXPECT_EQ(problem({8}, {1}, {0}), range);
  EXPECT_EQ(problem({8, 8}, {1, 1}, {1}),
            "conv_dim, conv_kernel and conv_stride have 2, 2 and 1 entries, expected equally many");
  EXPECT_EQ(problem({8, 8}, {1}, {1, 1}),
            "conv_dim, conv_kernel and conv_stride have 2, 1 and 2 entries, expected equally many");
}

}  // namespace
}  // namespace rooftile
