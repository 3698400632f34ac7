#include "tests/support/model_configs.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "tests/support/golden.h"

namespace rooftile {
namespace {

// Sizes under the names that most configs have; a reader takes those of its kind. Heads,
// feed-forward widths and the rest differ, so that one in place of another shows.
constexpr std::string_view kSizes = R"(, "hidden_size": 256, "num_hidden_layers": 2,
  "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 704, "vocab_size": 1000,
  "max_position_embeddings": 96, "d_model": 256, "num_layers": 2, "num_heads": 8, "d_ff": 704,
  "d_kv": 48, "d_inner": 704, "encoder_layers": 2, "decoder_layers": 3, "n_layers": 2, "n_heads": 8,
  "encoder_attention_heads": 8, "decoder_attention_heads": 4, "encoder_ffn_dim": 704,
  "decoder_ffn_dim": 576, "n_embd": 256, "n_layer": 2, "n_head": 8, "n_positions": 96,
  "state_size": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "num_experts": 6,
  "moe_intermediate_size": 160, "n_routed_experts": 6, "n_shared_experts": 1, "q_lora_rank": 72,
  "kv_lora_rank": 40, "qk_nope_head_dim": 24, "qk_rope_head_dim": 16, "v_head_dim": 32,
  "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 24,
  "linear_value_head_dim": 32, "attention_window": 32)";
// What some kinds need besides, and the files of the corpus in place of the sizes.
const std::map<std::string_view, std::string_view> kMore{
    {"deepseek_v4", R"(, "head_dim": 32, "o_groups": 4, "o_lora_rank": 48, "sliding_window": 64,
      "index_n_heads": 4, "index_head_dim": 32, "index_topk": 16, "hc_mult": 4)"},
    {"llama4_text", R"(, "intermediate_size_mlp": 448, "head_dim": 32, "num_experts_per_tok": 1)"},
    {"opt", R"(, "ffn_dim": 704, "word_embed_proj_dim": 128)"},
    {"zamba2", R"(, "layers_block_type": ["mamba", "hybrid"])"}};
const std::map<std::string_view, std::string_view> kFiles{{"AutoencoderKL", "vae"},
                                                          {"UNet2DConditionModel", "unet"},
                                                          {"blip", "blip"},
                                                          {"clip", "clip"},
                                                          {"deberta-v2", "deberta-v3"},
                                                          {"nemotron-nas", "nemotron_nas"},
                                                          {"depth_anything", "depth_anything"},
                                                          {"nemotron_h", "nemotron_h"},
                                                          {"siglip", "siglip-b"},
                                                          {"siglip2", "siglip2"}};

}  // namespace

std::string sizes_of(std::string_view type) {
  if (const auto file = kFiles.find(type); file != kFiles.end()) {
    const std::string text =
        file_text(std::filesystem::path(ROOFTILE_ROOT) / "tests" / "fuzz/corpus/hf_config" /
                  fmt::format("{}.json", file->second));
    return ", " + text.substr(text.find('{') + 1, text.rfind('}') - text.find('{') - 1);
  }
  const auto more = kMore.find(type);
  return std::string(kSizes) + std::string(more == kMore.end() ? "" : more->second);
}

}  // namespace rooftile
