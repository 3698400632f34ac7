// The largest sizes that are read, beyond any published network, and the first that are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/readers/hf_config/hf_config.h"

namespace rooftile {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kDecoder =
    R"("hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
       "intermediate_size": 96, "vocab_size": 100)";
constexpr const char* kCompressed =
    R"("hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
       "moe_intermediate_size": 24, "n_routed_experts": 6, "num_experts_per_tok": 2,
       "head_dim": 16, "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 12,
       "sliding_window": 32, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4)";
constexpr const char* kSwin =
    R"("model_type": "swin", "image_size": 32, "depths": [1], "num_heads": [1])";
constexpr const char* kSegformer =
    R"("model_type": "segformer", "image_size": 65536, "depths": [1], "hidden_sizes": [8],
       "sr_ratios": [1], "patch_sizes": [1], "strides": [64], "num_attention_heads": [1],
       "mlp_ratios": [1])";
constexpr const char* kHiera =
    R"("model_type": "sam2", "image_size": 8192, "blocks_per_stage": [1],
       "embed_dim_per_stage": [8], "num_attention_heads_per_stage": [1],
       "window_size_per_stage": [8])";
constexpr const char* kUNet =
    R"("_class_name": "UNet2DConditionModel", "down_block_types": ["CrossAttnDownBlock2D"],
       "up_block_types": ["CrossAttnUpBlock2D"], "block_out_channels": [64])";
constexpr const char* kAutoencoder =
    R"("_class_name": "AutoencoderKL", "down_block_types": ["DownEncoderBlock2D"],
       "up_block_types": ["UpDecoderBlock2D"], "sample_size": 8, "block_out_channels": [64])";
constexpr const char* kDepth = R"("model_type": "depth_anything", "backbone_config": {})";
constexpr const char* kSpeech =
    R"("model_type": "wav2vec2", "conv_dim": [8], "conv_kernel": [1], "conv_stride": [1],
       "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
       "intermediate_size": 96, "vocab_size": 100)";

struct Limit {
  const char* sizes;
  const char* given;
  const char* place;  // of the size
  json most, beyond;
};

json members(const std::string& text) { return json::parse("{" + text + "}"); }

// Why it is not read; empty where it is.
std::string refusal_of(const json& config, const ReadOptions& options = {}) {
  const auto workload = parse_hf_config(config.dump(), "config.json", options);
  return workload ? "" : workload.error().message;
}

TEST(Limits, OfSizes) {
  const std::vector<Limit> limits{
      {kDecoder, R"("model_type": "llama")", "/num_hidden_layers", 1024, 1025},
      {kDecoder, R"("model_type": "llama")", "/vocab_size", 1 << 25, (1 << 25) + 1},
      {"", R"("model_type": "vit", "patch_size": 1)", "/image_size", 4096, 4097},
      {"", R"("model_type": "yolos", "patch_size": 1, "image_size": [16, 16])", "/image_size/0",
       4096, 4097},
      {"", R"("model_type": "yolos", "patch_size": 1, "image_size": [16, 16])", "/image_size/1",
       4096, 4097},
      {"", R"("model_type": "yolos", "image_size": [16, 32])", "/patch_size", 16, 17},
      {"", R"("model_type": "yolos", "image_size": [32, 16])", "/patch_size", 16, 17},
      {kDecoder, R"("model_type": "layoutlmv3", "patch_size": 1)", "/input_size", 4096, 4097},
      {kDecoder, R"("model_type": "layoutlmv3", "input_size": 32)", "/patch_size", 32, 33},
      {"", R"("model_type": "detr")", "/encoder_layers", 256, 257},
      {"", R"("model_type": "detr")", "/decoder_layers", 256, 257},
      {"", R"("model_type": "rt_detr")", "/encoder_layers", 256, 257},
      {"", R"("model_type": "rt_detr")", "/decoder_layers", 256, 257},
      {"", R"("model_type": "rt_detr")", "/encoder_hidden_dim", 1 << 20, (1 << 20) + 8},
      {"", R"("model_type": "resnet", "depths": [3, 4, 6, 3])", "/depths/0", 256, 257},
      {"", R"("model_type": "resnet", "image_size": 32, "hidden_sizes": [256, 512, 1024, 2048])",
       "/hidden_sizes/3", 1 << 20, (1 << 20) + 1},
      {kSwin, "", "/embed_dim", 1 << 20, (1 << 20) + 1},
      {kSwin, "", "/depths/0", 256, 257},
      {kSwin, "", "/window_size", 4096, 4097},
      {kSwin, "", "/mlp_ratio", 64.0, 64.5},
      {kSegformer, "", "/strides/0", 4096, 4097},
      {kSegformer, "", "/patch_sizes/0", 4096, 4097},
      {kSegformer, "", "/mlp_ratios/0", 4096, 4097},
      {"", R"("model_type": "segformer", "image_size": 16384, "depths": [1], "hidden_sizes": [8],
       "sr_ratios": [1], "patch_sizes": [1], "strides": [4], "num_attention_heads": [1],
       "mlp_ratios": [1])",
       "/sr_ratios/0", 4096, 4097},
      {"", R"("model_type": "segformer", "image_size": 64, "depths": [1], "hidden_sizes": [8192],
       "sr_ratios": [1], "patch_sizes": [1], "strides": [4], "num_attention_heads": [1],
       "mlp_ratios": [1])",
       "/num_attention_heads/0", 4096, 4097},
      {"", R"("model_type": "sam")", "/window_size", 4096, 4097},
      {"", R"("model_type": "sam", "num_attention_heads": 1, "image_size": 16)", "/hidden_size",
       1 << 20, (1 << 20) + 1},
      {kHiera, "", "/patch_kernel_size", 4096, 4097},
      {kHiera, "", "/patch_padding", 4096, 4097},
      {kHiera, "", "/window_positional_embedding_background_size", 4096, 4097},
      {kHiera, "", "/blocks_per_stage/0", 256, 257},
      {kHiera, "", "/window_size_per_stage/0", 4096, 4097},
      {kHiera, "", "/mlp_ratio", 64.0, 64.5},
      {kHiera, "", "/fpn_kernel_size", 1, 2},
      {"", R"("model_type": "sam2", "image_size": 64, "blocks_per_stage": [1],
       "embed_dim_per_stage": [8], "num_attention_heads_per_stage": [1],
       "window_size_per_stage": [8])",
       "/embed_dim_per_stage/0", 1 << 20, (1 << 20) + 1},
      {"", R"("model_type": "sam2", "image_size": 64, "blocks_per_stage": [1],
       "embed_dim_per_stage": [1048576], "num_attention_heads_per_stage": [1],
       "window_size_per_stage": [8])",
       "/num_attention_heads_per_stage/0", 1 << 20, 1 << 21},
      {kDepth, "", "/fusion_hidden_size", 1 << 20, (1 << 20) + 1},
      {kDepth, "", "/reassemble_hidden_size", 1 << 20, (1 << 20) + 1},
      {"", R"("model_type": "depth_anything", "backbone_config": {}, "reassemble_factors": [4, 2, 1,
       0.5])",
       "/reassemble_factors/0", 64, 65},
      {kDecoder,
       R"("model_type": "wav2vec2", "conv_dim": [8], "conv_kernel": [1], "conv_stride": [1])",
       "/conv_kernel/0", 4096, 4097},
      {kDecoder,
       R"("model_type": "wav2vec2", "conv_dim": [8], "conv_kernel": [1], "conv_stride": [1])",
       "/conv_stride/0", 4096, 4097},
      {kDecoder, R"("model_type": "gemma3n_text")", "/altup_num_inputs", 64, 65},
      {kCompressed, R"("model_type": "deepseek_v4")", "/hc_mult", 64, 65},
      {kDecoder, R"("model_type": "lfm2")", "/block_ffn_dim_multiplier", 1023.5, 1024.0},
      {"", R"("_class_name": "FluxTransformer2DModel")", "/num_single_layers", 1024, 1025},
      {"", R"("_class_name": "FluxTransformer2DModel")", "/num_layers", 1024, 1025},
      {"", R"("_class_name": "FluxTransformer2DModel", "num_layers": 1, "num_single_layers": 0)",
       "/num_attention_heads", 8192, 8193},
      {"", R"("_class_name": "FluxTransformer2DModel")", "/patch_size", 1, 2},
      {"", R"("_class_name": "SD3Transformer2DModel", "sample_size": 64)", "/patch_size", 64, 65},
      {"", R"("_class_name": "DiTTransformer2DModel", "sample_size": 64)", "/patch_size", 64, 65},
      {kUNet, "", "/layers_per_block", 64, 65},
      {kUNet, "", "/transformer_layers_per_block", 256, 257},
      {"", R"("_class_name": "UNet2DConditionModel", "down_block_types": ["CrossAttnDownBlock2D"],
       "up_block_types": ["CrossAttnUpBlock2D"], "block_out_channels": [1048576],
       "sample_size": 8)",
       "/attention_head_dim", 1 << 20, 1 << 21},
      {kAutoencoder, "", "/layers_per_block", 64, 65},
      {kAutoencoder, "", "/block_out_channels/0", 1 << 20, (1 << 20) + 32},
  };
  for (const Limit& limit : limits) {
    json config = members(limit.given);
    config.update(members(limit.sizes));
    const json::json_pointer place(limit.place);
    config[place] = limit.most;
    EXPECT_EQ(refusal_of(config), "") << config;
    config[place] = limit.beyond;
    const std::string refusal = refusal_of(config);
    EXPECT_NE(refusal, "") << config;
    EXPECT_THAT(refusal, testing::Not(HasSubstr("a tensor would"))) << config;
  }
}

std::vector<int> repeated(int size, std::size_t times) { return std::vector<int>(times, size); }

// A convolution needs a position to begin with, and windows some to lie in.
TEST(Limits, OfMaps) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"model_type": "swin", "image_size": 2})", "swin.embeddings.patch_embeddings.projection"},
      {R"({"model_type": "swin", "image_size": [4, 3]})",
       "swin.embeddings.patch_embeddings.projection"},
      {R"({"model_type": "swin", "image_size": [3, 4]})",
       "swin.embeddings.patch_embeddings.projection"},
      {R"({"model_type": "convnext", "image_size": 3})", "convnext.embeddings.patch_embeddings"},
      {R"({"model_type": "convnext", "image_size": 4})",
       "convnext.encoder.stages.1.downsampling_layer.1"},
      {R"({"model_type": "sam", "image_size": 15})", "vision_encoder.patch_embed.projection"},
      {R"({"model_type": "segformer", "image_size": 1})",
       "attention.sequence_reduction.sequence_reduction"},
      {R"({"model_type": "resnet", "image_size": 33554432})",
       "resnet.embedder.embedder.convolution"},
      {R"({"_class_name": "DiTTransformer2DModel", "sample_size": 33554432})", "pos_embed.proj"}};
  for (const auto& [config, name] : cases) {
    EXPECT_EQ(refusal_of(json::parse(config)),
              fmt::format("the sizes of {} are out of range: a tensor would be empty, or have more "
                          "than 1e16 elements",
                          name));
  }
  for (const char* config :
       {R"({"model_type": "swin", "image_size": 4})", R"({"model_type": "sam", "image_size": 16})",
        R"({"model_type": "segformer", "image_size": 32})",
        R"({"model_type": "convnext", "image_size": 32})",
        R"({"model_type": "resnet", "image_size": 1})",
        R"({"model_type": "rt_detr", "image_size": 1})"}) {
    EXPECT_EQ(refusal_of(json::parse(config)), "");
  }
}

TEST(Limits, OfLists) {
  json resnet{{"model_type", "resnet"}, {"image_size", 256}};
  for (const std::size_t stages : {16U, 17U}) {
    resnet["depths"] = repeated(1, stages);
    resnet["hidden_sizes"] = repeated(8, stages);
    EXPECT_EQ(refusal_of(resnet).empty(), stages == 16) << stages;
  }
  json speech = members(kSpeech);
  for (const std::size_t layers : {32U, 33U}) {
    speech["conv_dim"] = speech["conv_kernel"] = speech["conv_stride"] = repeated(1, layers);
    EXPECT_EQ(refusal_of(speech).empty(), layers == 32) << layers;
  }
  json autoencoder = members(kAutoencoder);
  for (const std::size_t blocks : {16U, 17U}) {
    autoencoder["sample_size"] = 1 << 16;
    autoencoder["norm_num_groups"] = 1;
    autoencoder["mid_block_add_attention"] = false;
    autoencoder["block_out_channels"] = repeated(1, blocks);
    autoencoder["down_block_types"] = std::vector<std::string>(blocks, "DownEncoderBlock2D");
    autoencoder["up_block_types"] = std::vector<std::string>(blocks, "UpDecoderBlock2D");
    EXPECT_EQ(refusal_of(autoencoder).empty(), blocks == 16) << blocks;
  }
  json llama = members(kDecoder);
  llama["model_type"] = "lfm2";
  for (const std::size_t entries : {4096U, 4097U}) {
    llama["full_attn_idxs"] = repeated(1, entries);
    EXPECT_EQ(refusal_of(llama).empty(), entries == 4096) << entries;
  }
  json depth = members(kDepth);
  depth["neck_hidden_sizes"] = json::array({8});
  for (const std::size_t entries : {1U, 2U}) {
    depth["reassemble_factors"] = std::vector<double>(entries, 1.0);
    EXPECT_EQ(refusal_of(depth).empty(), entries == 1) << entries;
  }
}

// An entry of a list is a size from 0 to 2^25.
TEST(Limits, OfEntriesOfLists) {
  json config = members(kDecoder);
  config["model_type"] = "lfm2";
  for (const json& entry : std::vector<json>{0, 1 << 25}) {
    config["full_attn_idxs"] = json::array({entry});
    EXPECT_EQ(refusal_of(config), "") << entry;
  }
  for (const json& entry :
       std::vector<json>{-1, (1 << 25) + 1, 18446744073709551615ULL, 1.5, "a"}) {
    config["full_attn_idxs"] = json::array({entry});
    EXPECT_THAT(refusal_of(config), HasSubstr("full_attn_idxs: found ")) << entry;
    EXPECT_THAT(refusal_of(config), HasSubstr("expected integers from 0 to 33554432")) << entry;
  }
}

// Of longer lists of descriptions the first 4096 are read.
TEST(Limits, OfDescriptionsInLists) {
  json config = members(kDecoder);
  config["model_type"] = "nemotron-nas";
  const std::pair<std::size_t, int> cases[] = {{4095, 4095}, {4096, 4096}, {4097, 4096}};
  for (const auto& [entries, read] : cases) {
    config["block_configs"] = std::vector<json>(entries, json::object());
    EXPECT_EQ(
        refusal_of(config),
        fmt::format("block_configs: found {} blocks, expected one for each of 4 layers", read));
  }
}

TEST(Limits, OfNesting) {
  const auto nested = [](int depth) {
    const std::string text = std::string(static_cast<std::size_t>(depth), '[') +
                             std::string(static_cast<std::size_t>(depth), ']');
    return parse_hf_config(text, "config.json", {}).error().message;
  };
  EXPECT_THAT(nested(64), HasSubstr("a JSON list"));
  EXPECT_EQ(nested(65), "JSON nested deeper than 64 levels");
}

// Brackets in texts are no nesting, and escaped quotes end no text.
TEST(Limits, OfNestingCountBracketsOutsideOfTexts) {
  json config = members(kDecoder);
  config["model_type"] = "llama";
  config["note"] = std::string(70, '[');
  config["other"] = "\\\"" + std::string(70, '{') + "\\";
  EXPECT_EQ(refusal_of(config), "");
  std::string closed = "{";
  for (int index = 0; index < 70; ++index) closed += fmt::format("\"{}\": {{}}, ", index);
  closed += R"("model_type": "foo"})";
  EXPECT_THAT(parse_hf_config(closed, "config.json", {}).error().message,
              HasSubstr("is not read from its config"));
}

TEST(Limits, OfBatchAndLength) {
  json config = members(kDecoder);
  config["model_type"] = "llama";
  const auto refused = [&](std::optional<std::int64_t> ReadOptions::*option, std::int64_t size) {
    ReadOptions options;
    options.seq = 1;
    options.*option = size;
    if (option == &ReadOptions::past) options.mode = Mode::decode;
    return refusal_of(config, options);
  };
  for (const auto option : {&ReadOptions::batch, &ReadOptions::seq, &ReadOptions::past}) {
    EXPECT_EQ(refused(option, 1), "");
    EXPECT_EQ(refused(option, 1 << 25), "");
    for (const std::int64_t size : {0, (1 << 25) + 1}) {
      EXPECT_EQ(
          refused(option, size),
          fmt::format("batch and sequence length must be from 1 to 33554432, found {}", size));
    }
  }
}

}  // namespace
}  // namespace rooftile
