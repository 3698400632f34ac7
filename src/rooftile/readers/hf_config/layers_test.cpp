// Which layers of a stack attend within a window, have experts, or are of another kind. 13 layers,
// so that every period ends within them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "rooftile/readers/hf_config/hf_config.h"

namespace rooftile {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* kSizes = R"("hidden_size": 64, "num_hidden_layers": 13,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
  "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
  "intermediate_size_mlp": 48, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
  "linear_key_head_dim": 8, "linear_value_head_dim": 16)";

struct Stack {
  const char* model_type;
  const char* members;
  Lines layers;
};

Workload read(const Stack& stack) {
  ReadOptions options;
  options.seq = 64;
  const std::string config = fmt::format(R"({{"model_type": "{}", {}{}{}}})", stack.model_type,
                                         kSizes, *stack.members == '\0' ? "" : ", ", stack.members);
  auto workload = parse_hf_config(config, "config.json", options);
  EXPECT_TRUE(workload) << to_string(workload.error()) << " in " << config;
  return workload ? *workload : Workload{};
}

// "model.layers.{0-2,4}.self_attn.attention" without what is before the numbers: "{0-2,4}".
std::string numbers_of(const std::string& name) {
  const std::size_t begin = name.find_first_of("{0123456789");
  const std::size_t end = name[begin] == '{' ? name.find('}') + 1 : name.find('.', begin);
  return name.substr(begin, end - begin);
}

// Those that attend: their numbers, how many they are, and their window.
Lines attending(const Workload& workload) {
  Lines lines;
  for (const Op& op : workload.ops) {
    const auto* attention = std::get_if<Attention>(&op.body);
    if (attention == nullptr) continue;
    lines.push_back(fmt::format("{} x{}", numbers_of(op.name), op.count));
    if (attention->window > 0) lines.back() += fmt::format(" window {}", attention->window);
  }
  return lines;
}

TEST(Layers, AttendWithinAWindow) {
  const std::vector<Stack> stacks{
      {"llama", R"("sliding_window": 16)", {"{0-12} x13"}},
      {"mistral", R"("sliding_window": 16)", {"{0-12} x13 window 16"}},
      {"mistral", "", {"{0-12} x13"}},
      {"mistral",
       R"("sliding_window": 16,
          "layer_types": ["full_attention", "sliding_attention", "chunked_attention"])",
       {"0 x1", "{1-12} x12 window 16"}},
      {"phi3", R"("sliding_window": 16)", {"{0-12} x13 window 16"}},
      {"starcoder2", R"("sliding_window": 16)", {"{0-12} x13 window 16"}},
      {"mixtral", R"("sliding_window": 16)", {"{0-12} x13 window 16"}},
      {"cohere2", R"("sliding_window": 16)", {"{0-2,4-6,8-10,...} x10 window 16", "{3,7,11} x3"}},
      {"cohere2", "", {"{0-12} x13"}},
      {"olmo3", R"("sliding_window": 16)", {"{0-2,4-6,8-10,...} x10 window 16", "{3,7,11} x3"}},
      {"exaone4",
       R"("sliding_window": 16, "sliding_window_pattern": "LLLG")",
       {"{0-2,4-6,8-10,...} x10 window 16", "{3,7,11} x3"}},
      {"exaone4", R"("sliding_window": 16)", {"{0-12} x13"}},
      {"gemma2", R"("sliding_window": 16)", {"{0,2,4,...} x7 window 16", "{1,3,5,...} x6"}},
      {"gemma3_text", R"("sliding_window": 16)", {"{0-4,6-10,12} x11 window 16", "{5,11} x2"}},
      {"gemma3_text",
       R"("sliding_window": 16, "sliding_window_pattern": 4)",
       {"{0-2,4-6,8-10,...} x10 window 16", "{3,7,11} x3"}},
      {"gemma3n_text", R"("sliding_window": 16)", {"{0-3,5-8,10-12} x11 window 16", "{4,9} x2"}},
      {"gemma4_text", R"("sliding_window": 16)", {"{0-4,6-10,12} x11 window 16", "{5,11} x2"}},
      {"gpt_oss", R"("sliding_window": 16)", {"{0,2,4,...} x7 window 16", "{1,3,5,...} x6"}},
      {"llama4_text",
       R"("attention_chunk_size": 16)",
       {"{0-2,4-6,8-10,...} x10 window 16", "{3,7,11} x3"}},
      {"mimo_v2", R"("sliding_window": 16)", {"0 x1", "{1-4,6-10,12} x10 window 16", "{5,11} x2"}},
      {"mimo_v2",
       R"("sliding_window": 16, "hybrid_layer_pattern": [1, 0, 1])",
       {"0 x1 window 16", "{1,5,11} x3", "{2-4,6-10,12} x9 window 16"}},
      {"modernbert",
       R"("local_attention": 16)",
       {"0 x1", "{1-2,4-5,7-8,...} x8 window 16", "{3,6,9,...} x4"}},
      {"qwen2",
       R"("sliding_window": 16, "use_sliding_window": true, "max_window_layers": 9)",
       {"{0-8} x9", "{9-12} x4 window 16"}},
      {"qwen2", R"("sliding_window": 16, "max_window_layers": 9)", {"{0-12} x13"}},
      {"qwen3", R"("use_sliding_window": true, "max_window_layers": 9)", {"{0-12} x13"}},
      {"step3p5",
       R"("sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"])",
       {"{0,2} x2", "1 x1 window 16", "{3-12} x10"}},
      {"longformer", R"("attention_window": 16)", {"{0-12} x13 window 16"}},
      {"longformer",
       R"("attention_window": [16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 32])",
       {"{0-11} x12 window 16", "12 x1 window 32"}}};
  for (const Stack& stack : stacks) {
    EXPECT_EQ(attending(read(stack)), stack.layers) << stack.model_type << " " << stack.members;
  }
}

TEST(Layers, AttendToAllTokensOrKeepAState) {
  const std::vector<Stack> stacks{
      {"qwen3_next", "", {"{3,7,11} x3"}},
      {"qwen3_next", R"("full_attention_interval": 5)", {"{4,9} x2"}},
      {"qwen3_next",
       R"("layer_types": ["full_attention", "linear_attention", "full_attention"])",
       {"{0,2-3,7,...} x5"}},
      {"jamba", "", {"{4,12} x2"}},
      {"jamba", R"("attn_layer_period": 4, "attn_layer_offset": 1)", {"{1,5,9} x3"}},
      {"minimax", "", {"{0,2,4,...} x7"}},
      {"minimax", R"("attn_type_list": [0, 0, 1])", {"{2,4,6,...} x6"}},
      {"minimax",
       R"("attn_type_list": [0, 0, 1], "layer_types": ["full_attention", "linear_attention"])",
       {"{0,2,4,...} x7"}},
      {"bamba", R"("attn_layer_indices": [2, 7])", {"{2,7} x2"}},
      {"granitemoehybrid",
       R"("layer_types": ["mamba", "attention", "linear_attention", "full_attention"])",
       {"{1,3} x2"}},
      {"mllama_text_model", "", {"{0-2,4-7,9-12} x11", "{3,8} x2"}},
      {"mllama_text_model",
       R"("cross_attention_layers": [2, 4])",
       {"{0-1,3,5-12} x11", "{2,4} x2"}}};
  for (const Stack& stack : stacks) {
    EXPECT_EQ(attending(read(stack)), stack.layers) << stack.model_type << " " << stack.members;
  }
}

// Those with a router.
Lines sparse(const Workload& workload) {
  Lines lines;
  for (const Op& op : workload.ops) {
    for (const char* router : {".mlp.gate", ".router", ".router.classifier"}) {
      if (!op.name.ends_with(router)) continue;
      lines.push_back(fmt::format("{} x{}", numbers_of(op.name), op.count));
    }
  }
  return lines;
}

TEST(Layers, HaveExperts) {
  const std::vector<Stack> stacks{
      {"qwen3_moe", "", {"{0-12} x13"}},
      {"qwen3_moe", R"("decoder_sparse_step": 3)", {"{2,5,8,...} x4"}},
      {"qwen3_moe", R"("mlp_only_layers": [0, 12])", {"{1-11} x11"}},
      // Three of four attend in chunks.
      {"llama4_text", R"("interleave_moe_layer_step": 2)", {"{1,5,9} x3", "{3,7,11} x3"}},
      {"glm4_moe", R"("first_k_dense_replace": 2)", {"{2-12} x11"}},
      {"glm4_moe", R"("moe_layer_freq": 4)", {"{0,4,8,...} x4"}},
      {"glm4_moe", R"("moe_layer_freq": 4, "first_k_dense_replace": 5)", {"{8,12} x2"}},
      {"glm4_moe", R"("moe_layer_freq": 0)", {"{0-12} x13"}},
      {"glm4_moe", R"("moe_layer_freq": [0, 1, 0, 2])", {"{1,3-12} x11"}},
      {"glm4_moe",
       R"("mlp_layer_types": ["dense", "sparse", "dense"], "first_k_dense_replace": 5)",
       {"{1,5-12} x9"}},
      {"ernie4_5_moe", "", {"{1-12} x12"}},
      {"ernie4_5_moe",
       R"("moe_layer_interval": 3, "moe_layer_start_index": 3, "moe_layer_end_index": 10)",
       {"{5,8} x2"}},
      {"ernie4_5_moe", R"("moe_layer_start_index": 5, "moe_layer_end_index": 5)", {"5 x1"}},
      {"mimo_v2", "", {"{1-4,6-10,12} x10", "{5,11} x2"}},
      {"mimo_v2", R"("moe_layer_freq": [1, 0, 1])", {"{0,5,11} x3", "{2-4,6-10,12} x9"}},
      {"mimo_v2", R"("mlp_layer_types": ["sparse", "dense"])", {"{0,5,11} x3", "{2-4,6-10,12} x9"}},
      {"step3p5", "", {"{3-12} x10"}},
      {"step3p5", R"("moe_layers_enum": "3,4,12")", {"{3-4,12} x3"}},
      {"step3p5", R"("first_k_dense_replace": 1)", {"{1-12} x12"}},
      {"jamba", "", {"{1,3,5,...} x6"}},
      {"jamba", R"("expert_layer_period": 3, "expert_layer_offset": 2)", {"{2,5,8,...} x4"}}};
  for (const Stack& stack : stacks) {
    EXPECT_EQ(sparse(read(stack)), stack.layers) << stack.model_type << " " << stack.members;
  }
}

// num_layers / num_sparse layers apart, from the second one on: SwitchTransformersStack.
TEST(Layers, OfSwitchTransformersHaveExpertsEvenlyApart) {
  const char* sizes = R"("d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96, "num_layers": 13)";
  const auto with = [&](int encoder, int decoder) {
    const std::string members =
        fmt::format(R"({}, "num_sparse_encoder_layers": {}, "num_sparse_decoder_layers": {})",
                    sizes, encoder, decoder);
    return sparse(read({"switch_transformers", members.c_str(), {}}));
  };
  EXPECT_EQ(with(4, 0), Lines{"{1,4,7,...} x4"});
  EXPECT_EQ(with(13, 6), (Lines{"{0-12} x13", "{1,3,5,...} x6"}));
  EXPECT_EQ(with(20, 1), (Lines{"{0-12} x13", "1 x1"}));
}

}  // namespace
}  // namespace rooftile
