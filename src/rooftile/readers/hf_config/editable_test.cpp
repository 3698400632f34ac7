#include "rooftile/readers/hf_config/editable.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

constexpr std::string_view kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
  "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";

constexpr std::string_view kLlama = R"({"model_type": "llama",
  "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "num_hidden_layers": 4,
  "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1408,
  "vocab_size": 32000, "max_position_embeddings": 2048})";

TEST(EditableConfig, KnowsItsSizesByTheirKeys) {
  const auto gpt2 = EditableConfig::parse(kGpt2, "gpt2");
  ASSERT_TRUE(gpt2);
  const ModelShape expected{{ShapeSize::hidden, 768},
                            {ShapeSize::layers, 12},
                            {ShapeSize::heads, 12},
                            {ShapeSize::vocabulary, 50257}};
  EXPECT_EQ(gpt2->shape(), expected);
  EXPECT_EQ(gpt2->key(ShapeSize::hidden), "n_embd");
  const auto llama = EditableConfig::parse(kLlama, "llama");
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->shape().at(ShapeSize::kv_heads), 2);
  EXPECT_EQ(llama->shape().at(ShapeSize::ffn), 1408);
  EXPECT_FALSE(llama->shape().contains(ShapeSize::head_size));
}

TEST(EditableConfig, BuildsTheModelAtOtherSizes) {
  const auto config = EditableConfig::parse(kGpt2, "gpt2");
  ASSERT_TRUE(config);
  ModelShape padded = config->shape();
  padded[ShapeSize::vocabulary] = 50304;
  const auto before = config->build(config->shape(), {}), after = config->build(padded, {});
  ASSERT_TRUE(before && after);
  // 47 rows of 768 in the one table that input and output share.
  EXPECT_EQ(*after->parameters - *before->parameters, 47 * 768);
  ModelShape broken = config->shape();
  broken[ShapeSize::heads] = 7;
  EXPECT_FALSE(config->build(broken, {}));
}

TEST(EditableConfig, ChangesTheTextModelOfSeveral) {
  const std::string nested =
      R"({"model_type": "qwen2_vl", "text_config": )" + std::string(kLlama) + "}";
  const auto config = EditableConfig::parse(nested, "nested");
  ASSERT_TRUE(config) << to_string(config.error());
  ModelShape deeper = config->shape();
  deeper[ShapeSize::layers] = 5;
  const auto before = config->build(config->shape(), {}), after = config->build(deeper, {});
  ASSERT_TRUE(before && after);
  // Queries and output 512 x 512 each, keys and values 512 x 128, gate, up and down, two norms.
  EXPECT_EQ(*after->parameters - *before->parameters,
            2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1408 + 2 * 512);
}

TEST(EditableConfig, KeepsWhatALaterListRepeats) {
  std::string listed(kLlama);
  listed.insert(1, R"("layer_types": ["full", "full", "full", "full"], )");
  const auto config = EditableConfig::parse(listed, "listed");
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->shape().contains(ShapeSize::layers));
  EXPECT_EQ(config->notes().size(), 1U);
}

TEST(EditableConfig, RefusesWhatIsNoSingleStack) {
  EXPECT_FALSE(EditableConfig::parse("[1]", "list"));
  EXPECT_FALSE(EditableConfig::parse("{", "broken"));
  EXPECT_FALSE(EditableConfig::parse(R"({"model_type": "resnet", "depths": [3, 4]})", "resnet"));
  const auto t5 = EditableConfig::parse(
      R"({"model_type": "t5", "is_encoder_decoder": true, "d_model": 512, "num_layers": 6})", "t5");
  ASSERT_FALSE(t5);
  EXPECT_NE(t5.error().message.find("decoder"), std::string::npos);
}

}  // namespace
}  // namespace rooftile
