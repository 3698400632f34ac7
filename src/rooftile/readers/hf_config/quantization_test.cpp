#include "rooftile/readers/hf_config/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rooftile::hf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Quantization read_quantization(const char* text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  std::vector<std::string> notes;
  return Quantization(Config(json), notes);
}

struct MethodCase {
  const char* config;
  std::optional<Scheme> scheme;
};

TEST(Quantization, ReadsTheMethod) {
  const MethodCase cases[] = {
      {R"({"quant_method": "fp8"})", Scheme{Dtype::fp8, Dtype::fp8}},
      {R"({"quant_method": "mxfp4"})", Scheme{Dtype::fp4, std::nullopt}},
      {R"({"quant_method": "gptq", "bits": 4})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "awq", "bits": 4})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "bitsandbytes", "load_in_8bit": true})",
       Scheme{Dtype::int8, Dtype::int8}},
      {R"({"quant_algo": "NVFP4"})", Scheme{Dtype::fp4, Dtype::fp4}},
      {R"({"config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null,
           "weights": {"num_bits": 4, "type": "int"}}}})",
       Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "unheard_of"})", std::nullopt}};
  for (const MethodCase& c : cases) {
    const auto quantization =
        read_quantization((std::string(R"({"quantization_config": )") + c.config + "}").c_str());
    EXPECT_EQ(quantization.scheme("model.layers.0.mlp.up_proj", true), c.scheme) << c.config;
    EXPECT_EQ(quantization.scheme("lm_head", false), std::nullopt) << c.config;
  }
}

TEST(Quantization, ListedModulesHaveTheirOwnScheme) {
  const auto quantization = read_quantization(R"({"quantization_config": {"config_groups": {
    "a": {"weights": {"num_bits": 8, "type": "float"},
          "targets": ["model.language_model.layers.0.self_attn.q_proj", "lm_head"]},
    "b": {"weights": {"num_bits": 4, "type": "float"},
          "targets": ["model.language_model.layers.0.mlp.experts"]}}}})");
  const Scheme fp8{Dtype::fp8, std::nullopt}, fp4{Dtype::fp4, std::nullopt};
  EXPECT_EQ(quantization.scheme("model.layers.0.self_attn.q_proj", true), fp8);
  EXPECT_EQ(quantization.scheme("lm_head", false), fp8);
  EXPECT_EQ(quantization.scheme("model.layers.0.mlp.experts.0.up_proj", true), fp4);
  EXPECT_EQ(quantization.scheme("model.layers.0.self_attn.k_proj", true), std::nullopt);
}

TEST(Quantization, ExcludedModulesStay) {
  const auto quantization = read_quantization(R"({"quantization_config": {"quant_method": "fp8",
    "ignore": ["model.layers.0*", "model.layers.3.self_attn", "shared_experts",
               "re:.*mlp\\.(gate|up)_proj.*", "mtp.layers.1*"]}})");
  const auto is_quantized = [&](const char* module) {
    return quantization.scheme(module, true).has_value();
  };
  EXPECT_FALSE(is_quantized("model.layers.0.mlp.down_proj"));
  EXPECT_FALSE(is_quantized("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(is_quantized("model.layers.3.mlp.down_proj"));
  EXPECT_FALSE(is_quantized("model.layers.4.mlp.shared_experts.down_proj"));
  EXPECT_FALSE(is_quantized("model.layers.4.mlp.up_proj"));
  // The module for multi-token prediction has layers of its own.
  EXPECT_TRUE(is_quantized("model.layers.1.mlp.down_proj"));
}

// DeepSeek's checkpoints name the parts of a layer otherwise than Transformers.
TEST(Quantization, NamesOfDeepSeekAreUnderstood) {
  const auto quantization = read_quantization(R"({"quantization_config": {"quant_method": "fp8",
    "ignore": ["layers.0.ffn", "layers.1.attn", "layers.2.attn.q_proj", "layers.3.ffn_norm"]}})");
  const auto is_quantized = [&](const char* module) {
    return quantization.scheme(module, true).has_value();
  };
  EXPECT_FALSE(is_quantized("model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(is_quantized("model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(is_quantized("model.layers.1.self_attn.q_proj"));
  EXPECT_TRUE(is_quantized("model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(is_quantized("model.layers.2.self_attn.q_proj"));
  EXPECT_TRUE(is_quantized("model.layers.2.self_attn.k_proj"));
  EXPECT_TRUE(is_quantized("model.layers.3.mlp.up_proj"));
}

TEST(Quantization, MixedPrecisionListsModules) {
  const auto quantization = read_quantization(R"({"quantization_config": {
    "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": {
      "backbone.layers.0.mixer.in_proj": {"quant_algo": "FP8"},
      "backbone.layers.1.mixer.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4"}}}})");
  EXPECT_EQ(quantization.scheme("backbone.layers.0.mixer.in_proj", true),
            (Scheme{Dtype::fp8, Dtype::fp8}));
  EXPECT_EQ(quantization.scheme("backbone.layers.1.mixer.experts.0.up_proj", true),
            (Scheme{Dtype::fp4, std::nullopt}));
  EXPECT_EQ(quantization.scheme("backbone.layers.0.mixer.out_proj", true), std::nullopt);
  EXPECT_EQ(quantization.kv_cache(), Dtype::fp8);
}

TEST(Quantization, KeysAndValuesHaveADtype) {
  const std::pair<const char*, std::optional<Dtype>> cases[] = {
      {R"("kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false})", Dtype::fp8},
      {R"("kv_cache_scheme": "FP8")", Dtype::fp8},
      {R"("kv_cache_quant_algo": "NVFP4")", Dtype::fp4},
      {R"("kv_cache_quant_algo": null)", std::nullopt}};
  for (const auto& [text, dtype] : cases) {
    const std::string config =
        std::string(R"({"quantization_config": {"quant_method": "fp8", )") + text + "}}";
    EXPECT_EQ(read_quantization(config.c_str()).kv_cache(), dtype) << text;
  }
}

TEST(Quantization, FindsTheFormatInAName) {
  EXPECT_EQ(narrow_format_in_name("nvidia/DeepSeek-V3.1-NVFP4"), "NVFP4");
  EXPECT_EQ(narrow_format_in_name("Qwen3_32B_fp8.json"), "FP8");
  EXPECT_EQ(narrow_format_in_name("nvfp4x"), std::nullopt);
  EXPECT_EQ(narrow_format_in_name("Llama-3.1-8B"), std::nullopt);
}

TEST(Quantization, GlobsMatchWholeNames) {
  EXPECT_TRUE(matches_glob("a*c", "abbc"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("*b*", "abc"));
  EXPECT_FALSE(matches_glob("a*c", "abcd"));
  EXPECT_FALSE(matches_glob("ab*ba", "aba")) << "a star takes nothing from before it";
  EXPECT_FALSE(matches_glob("", "a"));
}

TEST(Quantization, SimpleRegexesBecomeGlobs) {
  EXPECT_THAT(globs_of_regex(".*lm_head.*"), ElementsAre("*lm_head*"));
  EXPECT_THAT(globs_of_regex("a\\.(b|c)$"), ElementsAre("a.b", "a.c"));
  EXPECT_THAT(globs_of_regex("a"), ElementsAre("a*"));
  EXPECT_THAT(globs_of_regex("[ab]+"), IsEmpty());
  EXPECT_THAT(globs_of_regex("(a"), IsEmpty());
}

}  // namespace
}  // namespace rooftile::hf
