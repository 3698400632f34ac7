#include "rooftile/readers/hf_config/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace rooftile::hf {
namespace {

TEST(Families, FollowFromTheArchitecture) {
  const std::pair<const char*, const char*> cases[] = {{"RobertaForMaskedLM", "roberta"},
                                                       {"GPT2LMHeadModel", "gpt2"},
                                                       {"LlamaModel", "llama"},
                                                       {"Qwen3MoeForCausalLM", "qwen3_moe"},
                                                       {"DebertaV2ForMaskedLM", "deberta-v2"},
                                                       {"T5EncoderModel", "t5"},
                                                       {"CLIPTextModel", "clip"},
                                                       {"CLIPVisionModel", "clip"},
                                                       {"Data2VecVisionModel", "data2vec-vision"},
                                                       {"ForCausalLM", ""},
                                                       {"FooForCausalLM", ""},
                                                       {"Llama", ""},
                                                       {"", ""}};
  for (const auto& [architecture, type] : cases) {
    EXPECT_EQ(model_type_of_architecture(architecture), type) << architecture;
  }
}

TEST(Families, AreKnownByTheirTypes) {
  EXPECT_TRUE(find_family("llama").has_value());
  EXPECT_FALSE(find_family("Llama").has_value());
  EXPECT_FALSE(find_family("").has_value());
  const std::vector<std::string> types = known_model_types();
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
  EXPECT_EQ(std::adjacent_find(types.begin(), types.end()), types.end());
  for (const std::string& type : types) EXPECT_TRUE(find_family(type).has_value()) << type;
}

TEST(Families, GenerateTextIfTheyAreDecoders) {
  for (const char* type : {"llama", "mixtral", "gpt2", "falcon", "gemma3_text", "deepseek_v3",
                           "deepseek_v4", "qwen3_next", "mamba", "t5", "whisper"}) {
    EXPECT_TRUE(generates_text(type)) << type;
  }
  for (const char* type : {"bert", "vit", "wav2vec2", "resnet", "detr", "sam2",
                           "UNet2DConditionModel", "FluxTransformer2DModel", "foo"}) {
    EXPECT_FALSE(generates_text(type)) << type;
  }
}

}  // namespace
}  // namespace rooftile::hf
