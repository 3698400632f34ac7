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

std::int64_t size_of(std::string_view members, ShapeSize size) {
  const auto config =
      EditableConfig::parse(R"({"model_type": "foo", )" + std::string(members) + "}", "foo");
  EXPECT_TRUE(config) << (config ? "" : to_string(config.error()));
  return config && config->shape().contains(size) ? config->shape().at(size) : 0;
}

TEST(EditableConfig, KnowsTheSpellingsOfFamilies) {
  const std::string layers = R"("num_hidden_layers": 3, )", hidden = R"("hidden_size": 5, )";
  for (const std::string key : {"hidden_size", "n_embd", "d_model", "dim"}) {
    EXPECT_EQ(size_of(layers + "\"" + key + "\": 7", ShapeSize::hidden), 7) << key;
  }
  for (const std::string key : {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}) {
    EXPECT_EQ(size_of(hidden + "\"" + key + "\": 7", ShapeSize::layers), 7) << key;
  }
  const std::string both = layers + hidden;
  for (const std::string key : {"num_attention_heads", "n_head", "num_heads", "n_heads"}) {
    EXPECT_EQ(size_of(both + "\"" + key + "\": 7", ShapeSize::heads), 7) << key;
  }
  for (const std::string key :
       {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim"}) {
    EXPECT_EQ(size_of(both + "\"" + key + "\": 7", ShapeSize::ffn), 7) << key;
  }
  EXPECT_EQ(size_of(both + R"("head_dim": 7)", ShapeSize::head_size), 7);
  EXPECT_EQ(size_of(both + R"("vocab_size": 1)", ShapeSize::vocabulary), 1);
  for (const std::string value : {"0", "-1", "1.5", "\"7\"", "null", "[7]"}) {
    EXPECT_EQ(size_of(both + "\"vocab_size\": " + value, ShapeSize::vocabulary), 0) << value;
  }
}

TEST(EditableConfig, KeepsTheHeadsOfLatentAttention) {
  std::string latent(kLlama);
  latent.insert(1, R"("kv_lora_rank": 16, "head_dim": 64, )");
  const auto config = EditableConfig::parse(latent, "latent");
  ASSERT_TRUE(config);
  for (const ShapeSize size : {ShapeSize::heads, ShapeSize::kv_heads, ShapeSize::head_size}) {
    EXPECT_FALSE(config->shape().contains(size));
  }
  EXPECT_EQ(config->notes(),
            std::vector<std::string>{"latent attention: the number of heads is kept"});
}

// A list of another length is not one of the layers, and one of one entry says nothing.
TEST(EditableConfig, ChangesTheDepthBesideOtherLists) {
  std::string listed(kLlama);
  listed.insert(1, R"("eos_token_id": [1, 2, 3], )");
  EXPECT_TRUE(EditableConfig::parse(listed, "listed")->shape().contains(ShapeSize::layers));
  EXPECT_TRUE(EditableConfig::parse(R"({"model_type": "llama", "architectures": ["A"],
      "hidden_size": 8, "num_hidden_layers": 1})",
                                    "one")
                  ->shape()
                  .contains(ShapeSize::layers));
}

TEST(EditableConfig, TakesTheBatchForAnOption) {
  const auto config = EditableConfig::parse(kGpt2, "gpt2");
  ASSERT_TRUE(config);
  ModelShape shape = config->shape();
  shape[ShapeSize::batch] = 3;
  const auto workload = config->build(shape, {});
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->batch, 3);
  ReadOptions options;
  options.batch = 2;
  options.build = [](const std::string&, const ReadOptions&) -> Result<Workload> {
    ADD_FAILURE() << "the file is not what is built";
    return fail("");
  };
  EXPECT_EQ(config->build(config->shape(), options)->batch, 2);
}

TEST(EditableConfig, SaysWhetherItsWeightsAreQuantized) {
  const auto is_quantized = [](const std::string& text) {
    return EditableConfig::parse(text, "config")->is_quantized();
  };
  const std::string llama(kLlama), nested = R"({"model_type": "qwen2_vl", "text_config": )";
  std::string narrow = llama;
  narrow.insert(1, R"("quantization_config": {}, )");
  EXPECT_FALSE(is_quantized(llama));
  EXPECT_TRUE(is_quantized(narrow));
  EXPECT_FALSE(is_quantized(nested + llama + "}"));
  EXPECT_TRUE(is_quantized(nested + narrow + "}"));
  EXPECT_TRUE(is_quantized(nested + llama + R"(, "quantization_config": {}})"));
}

TEST(EditableConfig, NamesTheFileInErrors) {
  const auto missing = EditableConfig::read("/no/such/config.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, "/no/such/config.json");
  const auto broken = EditableConfig::parse("{", "broken");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().where, "broken");
  for (const char* text : {R"({"hidden_size": 8})", R"({"num_hidden_layers": 8})"}) {
    const auto sizes = EditableConfig::parse(text, "sizes");
    ASSERT_FALSE(sizes) << text;
    EXPECT_EQ(to_string(sizes.error()),
              "sizes: states no hidden size and number of layers: expected a transformer's "
              "config.json");
  }
  for (const char* more :
       {R"("encoder_layers": 2)", R"("num_decoder_layers": 2)", R"("is_encoder_decoder": true)"}) {
    std::string two(kLlama);
    two.insert(1, std::string(more) + ", ");
    EXPECT_FALSE(EditableConfig::parse(two, "two")) << more;
  }
  for (const char* more : {R"("is_encoder_decoder": false)", R"("is_encoder_decoder": 1)"}) {
    std::string one(kLlama);
    one.insert(1, std::string(more) + ", ");
    EXPECT_TRUE(EditableConfig::parse(one, "one")) << more;
  }
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
