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
      {R"({"quant_method": "FBGEMM_FP8"})", Scheme{Dtype::fp8, Dtype::fp8}},
      {R"({"quant_method": "gptq", "bits": 4})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "gptq"})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "gptq", "bits": 8})", Scheme{Dtype::int8, std::nullopt}},
      {R"({"quant_method": "gptq", "bits": 3})", std::nullopt},
      {R"({"quant_method": "awq", "bits": 4})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "awq", "w_bit": 8})", Scheme{Dtype::int8, std::nullopt}},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true})",
       Scheme{Dtype::int4, std::nullopt}},
      {R"({"quant_method": "bitsandbytes", "load_in_8bit": true})",
       Scheme{Dtype::int8, Dtype::int8}},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": false, "load_in_8bit": false})",
       std::nullopt},
      {R"({"quant_algo": "NVFP4"})", Scheme{Dtype::fp4, Dtype::fp4}},
      {R"({"quant_method": "fp8", "quant_algo": "W4A16_AWQ"})", Scheme{Dtype::int4, std::nullopt}},
      {R"({"config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null,
           "weights": {"num_bits": 4, "type": "int"}}}})",
       Scheme{Dtype::int4, std::nullopt}},
      {R"({"config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"},
           "input_activations": {"num_bits": 8}}}})",
       Scheme{Dtype::fp8, Dtype::int8}},
      {R"({"config_groups": {"group_0": {"weights": {"num_bits": 3}}}})", std::nullopt},
      {R"({"quant_method": "unheard_of"})", std::nullopt}};
  for (const MethodCase& c : cases) {
    const auto quantization =
        read_quantization((std::string(R"({"quantization_config": )") + c.config + "}").c_str());
    EXPECT_EQ(quantization.scheme("model.layers.0.mlp.up_proj", true), c.scheme) << c.config;
    EXPECT_EQ(quantization.scheme("lm_head", false), std::nullopt) << c.config;
  }
}

// The algorithms of TensorRT-LLM, quantization/mode.py: bits of weights and of activations.
TEST(Quantization, KnowsTheAlgorithmsOfModelOpt) {
  const std::pair<const char*, Scheme> cases[] = {
      {"FP8", {Dtype::fp8, Dtype::fp8}},
      {"FP8_PER_CHANNEL_PER_TOKEN", {Dtype::fp8, Dtype::fp8}},
      {"FP8_BLOCK_SCALES", {Dtype::fp8, Dtype::fp8}},
      {"FP8_PB_WO", {Dtype::fp8, std::nullopt}},
      {"MXFP8", {Dtype::fp8, Dtype::fp8}},
      {"NVFP4_AWQ", {Dtype::fp4, Dtype::fp4}},
      {"W4A16_NVFP4", {Dtype::fp4, std::nullopt}},
      {"W4A8_NVFP4_FP8", {Dtype::fp4, Dtype::fp8}},
      {"W4A16_MXFP4", {Dtype::fp4, std::nullopt}},
      {"W4A8_MXFP4_FP8", {Dtype::fp4, Dtype::fp8}},
      {"W4A8_MXFP4_MXFP8", {Dtype::fp4, Dtype::fp8}},
      {"W4A16", {Dtype::int4, std::nullopt}},
      {"W4A16_GPTQ", {Dtype::int4, std::nullopt}},
      {"W4A8_AWQ", {Dtype::int4, Dtype::fp8}},
      {"W8A16", {Dtype::int8, std::nullopt}},
      {"W8A16_GPTQ", {Dtype::int8, std::nullopt}},
      {"W8A8_SQ_PER_CHANNEL", {Dtype::int8, Dtype::int8}},
      {"INT8", {Dtype::int8, Dtype::int8}}};
  for (const auto& [name, scheme] : cases) {
    const std::string config =
        std::string(R"({"quantization_config": {"quant_algo": ")") + name + R"("}})";
    EXPECT_EQ(read_quantization(config.c_str()).scheme("lm_head", true), scheme) << name;
  }
}

std::vector<std::string> notes_of(const std::string& quantization) {
  const nlohmann::json json =
      nlohmann::json::parse(R"({"quantization_config": )" + quantization + "}");
  std::vector<std::string> notes;
  const Quantization read(Config(json), notes);
  return notes;
}

TEST(Quantization, SaysWhatIsNotModelled) {
  EXPECT_THAT(notes_of(R"({"quant_method": "fp8"})"), IsEmpty());
  EXPECT_THAT(notes_of(R"({"quant_method": "AQLM"})"),
              ElementsAre("quantization_config (quant_method 'aqlm') is not modelled: weights are "
                          "counted in the model's dtype"));
  EXPECT_THAT(notes_of(R"({"quant_method": "modelopt", "quant_algo": "W2A16"})"),
              ElementsAre("quantization_config (quant_method 'w2a16') is not modelled: weights "
                          "are counted in the model's dtype"));
  EXPECT_THAT(notes_of(R"({"quant_method": "fp8", "ignore": ["re:[ab]+", "re:(a|b)c"]})"),
              ElementsAre("the pattern 're:[ab]+' of unquantized modules is not understood and "
                          "ignored"));
  EXPECT_THAT(notes_of(R"({"quantized_layers": {"a": {"quant_algo": "FP8"},
                "b": {"quant_algo": "W2A16"}, "c": 1}})"),
              ElementsAre("2 of quantized_layers have a quant_algo that is not known: their "
                          "weights are counted in the model's dtype"));
  EXPECT_THAT(notes_of(R"({"config_groups": {"a": {"weights": {"num_bits": 2}},
                "b": {"weights": {"num_bits": 4}, "targets": ["Linear"]}}})"),
              ElementsAre("a config group of quantization_config has weights of an unknown type "
                          "and is ignored"));
}

// 512 patterns with stars are read, whatever comes without one.
TEST(Quantization, ReadsSomeHundredPatterns) {
  const auto config = [](int patterns) {
    std::string text = R"({"quant_method": "fp8", "ignore": ["plain")";
    for (int index = 0; index < patterns; ++index) {
      text += ", \"a" + std::to_string(index) + "*\"";
    }
    return text + "]}";
  };
  EXPECT_THAT(notes_of(config(512)), IsEmpty());
  EXPECT_THAT(notes_of(config(513)),
              ElementsAre("only the first 512 patterns of unquantized modules are used"));
}

// DeepSeek V4: the experts alone have weights of four bits.
TEST(Quantization, ExpertsHaveADtypeOfTheirOwn) {
  for (const char* text :
       {R"({"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}})",
        R"({"quantization_config": {"quant_method": "fp8", "expert_dtype": "fp4"}})",
        R"({"text_config": {"quantization_config":
            {"quant_method": "fp8", "expert_dtype": "fp4"}}})"}) {
    const Quantization quantization = read_quantization(text);
    EXPECT_EQ(quantization.scheme("model.layers.0.mlp.experts.0.up_proj", true),
              (Scheme{Dtype::fp4, Dtype::fp8}));
    EXPECT_EQ(quantization.scheme("model.layers.0.mlp.shared_experts.up_proj", true),
              (Scheme{Dtype::fp8, Dtype::fp8}));
  }
  const Quantization all = read_quantization(R"({"expert_dtype": "bf16",
      "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_EQ(all.scheme("model.layers.0.mlp.experts.0.up_proj", true),
            (Scheme{Dtype::fp8, Dtype::fp8}));
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
      {R"("kv_cache_scheme": {"num_bits": 8, "type": "int"})", Dtype::int8},
      {R"("kv_cache_scheme": {"num_bits": 4, "type": "float"})", Dtype::fp4},
      {R"("kv_cache_scheme": {"num_bits": 16, "type": "float"})", std::nullopt},
      {R"("kv_cache_quant_algo": "NVFP4")", Dtype::fp4},
      {R"("kv_cache_quant_algo": "INT8")", Dtype::int8},
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
  EXPECT_EQ(narrow_format_in_name("gpt-oss-20b-mxfp4"), "MXFP4");
  EXPECT_EQ(narrow_format_in_name("fp8"), "FP8");
  EXPECT_EQ(narrow_format_in_name("nvfp4x"), std::nullopt);
  EXPECT_EQ(narrow_format_in_name("xfp8"), std::nullopt);
  EXPECT_EQ(narrow_format_in_name("fp80-fp8"), "FP8") << "the second one is a word";
  EXPECT_EQ(narrow_format_in_name("Llama-3.1-8B"), std::nullopt);
}

TEST(Quantization, GlobsMatchWholeNames) {
  EXPECT_TRUE(matches_glob("a*c", "abbc"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("*b*", "abc"));
  EXPECT_FALSE(matches_glob("a*c", "abcd"));
  EXPECT_FALSE(matches_glob("ab*ba", "aba")) << "a star takes nothing from before it";
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_TRUE(matches_glob("ab**", "ab"));
  EXPECT_FALSE(matches_glob("ab*c", "ab"));
  EXPECT_TRUE(matches_glob("a*bc*d", "abxbcxbcd")) << "a star takes as much as it needs";
}

TEST(Quantization, SimpleRegexesBecomeGlobs) {
  EXPECT_THAT(globs_of_regex(".*lm_head.*"), ElementsAre("*lm_head*"));
  EXPECT_THAT(globs_of_regex("a\\.(b|c)$"), ElementsAre("a.b", "a.c"));
  EXPECT_THAT(globs_of_regex("a"), ElementsAre("a*"));
  EXPECT_THAT(globs_of_regex("^model\\.a.*b$"), ElementsAre("model.a*b"));
  EXPECT_THAT(globs_of_regex("a.*"), ElementsAre("a*"));
  EXPECT_THAT(globs_of_regex("(a|b)c(d|e)$"), ElementsAre("acd", "ace", "bcd", "bce"));
  EXPECT_THAT(globs_of_regex("a.b"), IsEmpty());
  EXPECT_THAT(globs_of_regex("a^"), IsEmpty());
  EXPECT_THAT(globs_of_regex("a)b(c"), IsEmpty());
  EXPECT_THAT(globs_of_regex("a)"), IsEmpty());
  EXPECT_THAT(globs_of_regex("[ab]+"), IsEmpty());
  EXPECT_THAT(globs_of_regex("(a"), IsEmpty());
}

}  // namespace
}  // namespace rooftile::hf
