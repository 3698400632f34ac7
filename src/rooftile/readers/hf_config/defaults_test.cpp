// What a config means that leaves keys out: the defaults of the class that reads it, as the
// configuration classes of Transformers 5.24 and the networks of diffusers 0.42 state them; keys
// that both have no class for, as the code published with the weights does.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "rooftile/readers/hf_config/hf_config.h"
#include "rooftile/workload/workload_text.h"

namespace rooftile {
namespace {

using nlohmann::json;

constexpr const char* kDecoderWithoutInner = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "vocab_size": 100)";
constexpr const char* kDecoder = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96)";
constexpr const char* kExperts = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96, "num_experts": 6,
  "num_experts_per_tok": 2)";
constexpr const char* kLatent = R"("hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96, "kv_lora_rank": 16,
  "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "moe_intermediate_size": 24,
  "n_routed_experts": 6, "num_experts_per_tok": 2)";
constexpr const char* kEncoder = R"("hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100)";
constexpr const char* kBart = R"("d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
  "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
  "decoder_ffn_dim": 96, "vocab_size": 100)";
constexpr const char* kGpt = R"("n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100)";

struct Defaults {
  const char* name;
  const char* sizes;   // that have no default
  const char* given;   // what else the config says
  const char* stated;  // what it leaves out, with the defaults
};

void PrintTo(const Defaults& defaults, std::ostream* os) { *os << defaults.name; }

json members(const std::string& text) { return json::parse("{" + text + "}"); }

json config_of(const Defaults& defaults) {
  json config = members(defaults.given);
  if (*defaults.sizes != '\0') config.update(members(defaults.sizes));
  return config;
}

// All that is read of a config, but for the notes.
std::string model_of(const json& config) {
  const auto workload = parse_hf_config(config.dump(), "config.json", {});
  if (!workload) return to_string(workload.error());
  std::string text = std::to_string(workload->parameters.value_or(0)) + " parameters\n";
  for (const Op& op : workload->ops) text += to_text(op) + "\n";
  for (const auto& [what, count] : workload->skipped) {
    text += what + " " + std::to_string(count) + "\n";
  }
  return text;
}

// Another value than the one stated, of the same type.
json other_than(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<int>() + 1;
  if (value.is_number()) return 0.0;
  if (value.is_string()) return value == "relu" ? "gelu" : "relu";
  json list = value;
  list.front() = value.front().get<int>() + 1;
  return list;
}

class FamilyDefaults : public testing::TestWithParam<Defaults> {};

TEST_P(FamilyDefaults, AreThoseOfTheClass) {
  const json config = config_of(GetParam());
  json stated = config;
  stated.update(members(GetParam().stated));
  const std::string model = model_of(config);
  EXPECT_NE(model.find(" parameters\n"), std::string::npos) << model;
  EXPECT_EQ(model, model_of(stated));
}

TEST_P(FamilyDefaults, GiveWayToOtherValues) {
  const std::string model = model_of(config_of(GetParam()));
  const json stated = members(GetParam().stated);
  for (const auto& [key, value] : stated.items()) {
    json config = config_of(GetParam());
    config.update(stated);
    config[key] = other_than(value);
    EXPECT_NE(model, model_of(config)) << key << " has no effect";
  }
}

const Defaults kText[] = {
    {"bert", kEncoder,
     R"("model_type": "bert", "architectures": ["BertForSequenceClassification"])",
     R"("max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
        "is_decoder": false, "num_labels": 2)"},
    {"dpr", kEncoder, R"("model_type": "dpr")",
     R"("max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu")"},
    {"distilbert", kEncoder, R"("model_type": "distilbert")",
     R"("max_position_embeddings": 512, "activation": "gelu")"},
    {"electra", kEncoder, R"("model_type": "electra")",
     R"("max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu")"},
    {"albert", kEncoder, R"("model_type": "albert")",
     R"("embedding_size": 128, "max_position_embeddings": 512, "type_vocab_size": 2,
        "num_hidden_groups": 1, "inner_group_num": 1)"},
    {"deberta_v2", kEncoder,
     R"("model_type": "deberta-v2", "relative_attention": true, "share_att_key": true)",
     R"("max_position_embeddings": 512, "type_vocab_size": 0, "position_biased_input": true,
        "conv_kernel_size": 0, "position_buckets": 256)"},
    {"mpnet", kEncoder, R"("model_type": "mpnet")",
     R"("max_position_embeddings": 512, "relative_attention_num_buckets": 32)"},
    {"modernbert", kDecoder,
     R"("model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"])",
     R"("attention_bias": false, "mlp_bias": false, "norm_bias": false,
        "hidden_activation": "gelu", "global_attn_every_n_layers": 3, "local_attention": 128,
        "classifier_bias": false, "decoder_bias": true)"},
    {"nomic_bert", kEncoder, R"("model_type": "nomic_bert")", R"("type_vocab_size": 2)"},
    {"esm", kEncoder, R"("model_type": "esm")", R"("emb_layer_norm_before": false)"},
    {"longformer", kEncoder, R"("model_type": "longformer", "attention_window": 32)",
     R"("max_position_embeddings": 512, "type_vocab_size": 2)"},
    {"xlnet", "",
     R"("model_type": "xlnet", "architectures": ["XLNetLMHeadModel"], "d_model": 64,
        "n_layer": 2, "n_head": 4, "d_inner": 96, "vocab_size": 100)",
     R"("ff_activation": "gelu", "tie_word_embeddings": true)"},
    {"layoutlmv3", kEncoder, R"("model_type": "layoutlmv3")",
     R"("type_vocab_size": 2, "visual_embed": true, "patch_size": 16, "num_channels": 3,
        "max_2d_position_embeddings": 1024, "coordinate_size": 128, "shape_size": 128,
        "has_relative_attention_bias": true, "rel_pos_bins": 32,
        "has_spatial_attention_bias": true, "rel_2d_pos_bins": 64)"},
    {"t5", "",
     R"("model_type": "t5", "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96,
        "num_layers": 4, "vocab_size": 100)",
     R"("relative_attention_num_buckets": 32, "num_decoder_layers": 4,
        "feed_forward_proj": "relu", "n_positions": 512, "tie_word_embeddings": true)"},
    {"mt5", "",
     R"("model_type": "mt5", "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96,
        "num_layers": 4, "vocab_size": 100)",
     R"("tie_word_embeddings": false)"},
    {"switch_transformers", "",
     R"("model_type": "switch_transformers", "d_model": 64, "num_heads": 4, "d_kv": 16,
        "d_ff": 96, "num_layers": 12, "vocab_size": 100)",
     R"("num_sparse_encoder_layers": 3, "num_sparse_decoder_layers": 3, "num_experts": 8,
        "router_bias": false)"},
    {"bart", kBart, R"("model_type": "bart")",
     R"("max_position_embeddings": 1024, "activation_function": "gelu",
        "normalize_before": false)"},
    {"whisper", kBart, R"("model_type": "whisper")",
     R"("max_source_positions": 1500, "max_target_positions": 448, "num_mel_bins": 80,
        "activation_function": "gelu")"},
    {"wav2vec2", "",
     R"("model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96)",
     R"("vocab_size": 32, "conv_dim": [512, 512, 512, 512, 512, 512, 512], "conv_kernel": [10,
        3, 3, 3, 3, 2, 2], "conv_stride": [5, 2, 2, 2, 2, 2, 2], "conv_bias": false,
        "num_conv_pos_embeddings": 128, "num_conv_pos_embedding_groups": 16,
        "feat_extract_norm": "group", "do_stable_layer_norm": false, "hidden_act": "gelu",
        "add_adapter": false)"},
    {"wav2vec2_classifier", "",
     R"("model_type": "wav2vec2", "architectures": ["Wav2Vec2ForSequenceClassification"],
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 96)",
     R"("classifier_proj_size": 256)"},
    {"hubert", "",
     R"("model_type": "hubert", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 96)",
     R"("feat_proj_layer_norm": true)"},
    {"wavlm", "",
     R"("model_type": "wavlm", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 96)",
     R"("num_buckets": 320)"},
};

const Defaults kImages[] = {
    {"vit", "", R"("model_type": "vit")",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "image_size": 224, "patch_size": 16,
        "num_channels": 3, "qkv_bias": true)"},
    {"yolos", "", R"("model_type": "yolos", "architectures": ["YolosForObjectDetection"])",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "image_size": [512, 864],
        "patch_size": 16, "num_channels": 3, "qkv_bias": true, "num_detection_tokens": 100,
        "use_mid_position_embeddings": true)"},
    {"beit", "", R"("model_type": "beit")",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "image_size": 224, "patch_size": 16,
        "use_mask_token": false, "use_absolute_position_embeddings": false,
        "use_relative_position_bias": false, "use_shared_relative_position_bias": false,
        "layer_scale_init_value": 0.1, "use_mean_pooling": true)"},
    {"dinov2", "", R"("model_type": "dinov2", "architectures": ["Dinov2ForImageClassification"])",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "hidden_act": "gelu", "mlp_ratio": 4, "image_size": 224, "patch_size": 14,
        "use_swiglu_ffn": false, "num_register_tokens": 0)"},
    {"dinov3_vit", "", R"("model_type": "dinov3_vit")",
     R"("hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6,
        "intermediate_size": 1536, "hidden_act": "gelu", "image_size": 224, "patch_size": 16,
        "num_register_tokens": 0, "query_bias": true, "key_bias": false, "value_bias": true,
        "proj_bias": true, "mlp_bias": true, "use_gated_mlp": false)"},
    {"clip_text_model", "",
     R"("model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"])",
     R"("hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8,
        "intermediate_size": 2048, "max_position_embeddings": 77, "vocab_size": 49408,
        "hidden_act": "quick_gelu", "projection_dim": 512)"},
    {"clip_vision_model", "",
     R"("model_type": "clip_vision_model", "architectures": ["CLIPVisionModelWithProjection"])",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "image_size": 224, "patch_size": 32, "num_channels": 3,
        "hidden_act": "quick_gelu", "projection_dim": 512)"},
    {"siglip_vision_model", "", R"("model_type": "siglip_vision_model")",
     R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_channels": 3,
        "vision_use_head": true)"},
    {"siglip2_vision_model", "", R"("model_type": "siglip2_vision_model")",
     R"("patch_size": 16, "num_patches": 256, "num_channels": 3)"},
    {"data2vec_vision", "", R"("model_type": "data2vec-vision")",
     R"("hidden_size": 768, "layer_scale_init_value": 0.1)"},
    {"resnet", "", R"("model_type": "resnet", "architectures": ["ResNetForImageClassification"])",
     R"("num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048],
        "depths": [3, 4, 6, 3], "layer_type": "bottleneck", "hidden_act": "relu",
        "downsample_in_first_stage": false, "downsample_in_bottleneck": false, "image_size": 224)"},
    {"convnext", "", R"("model_type": "convnext")",
     R"("num_channels": 3, "patch_size": 4, "hidden_sizes": [96, 192, 384, 768], "depths": [3,
        3, 9, 3], "hidden_act": "gelu", "layer_scale_init_value": 1e-6, "image_size": 224)"},
    {"swin", "", R"("model_type": "swin")",
     R"("image_size": 224, "patch_size": 4, "num_channels": 3, "embed_dim": 96, "depths": [2, 2,
        6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7, "mlp_ratio": 4.0,
        "qkv_bias": true, "hidden_act": "gelu", "use_absolute_embeddings": false)"},
    {"segformer", "",
     R"("model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"])",
     R"("num_channels": 3, "depths": [2, 2, 2, 2], "sr_ratios": [8, 4, 2, 1],
        "hidden_sizes": [32, 64, 160, 256], "patch_sizes": [7, 3, 3, 3], "strides": [4, 2, 2,
        2], "num_attention_heads": [1, 2, 5, 8], "mlp_ratios": [4, 4, 4, 4],
        "hidden_act": "gelu", "decoder_hidden_size": 256, "image_size": 512)"},
    {"sam_vision_model", "", R"("model_type": "sam_vision_model")",
     R"("hidden_size": 768, "output_channels": 256, "num_hidden_layers": 12,
        "num_attention_heads": 12, "num_channels": 3, "image_size": 1024, "patch_size": 16,
        "hidden_act": "gelu", "qkv_bias": true, "mlp_ratio": 4.0, "use_abs_pos": true,
        "use_rel_pos": true, "window_size": 14, "global_attn_indexes": [2, 5, 8, 11])"},
    {"sam2_vision_model", "", R"("model_type": "sam2_vision_model")",
     R"("image_size": 1024, "num_channels": 3, "blocks_per_stage": [1, 2, 7, 2],
        "embed_dim_per_stage": [96, 192, 384, 768], "num_attention_heads_per_stage": [1, 2, 4,
        8], "window_size_per_stage": [8, 4, 14, 7], "global_attention_blocks": [5, 7, 9],
        "patch_kernel_size": 7, "patch_stride": 4, "patch_padding": 3, "mlp_ratio": 4.0,
        "hidden_act": "gelu", "fpn_hidden_size": 256, "fpn_kernel_size": 1,
        "fpn_top_down_levels": [2, 3], "window_positional_embedding_background_size": 7)"},
    {"depth_anything", "",
     R"("model_type": "depth_anything", "backbone_config": {"image_size": 518})",
     R"("reassemble_hidden_size": 384, "reassemble_factors": [4, 2, 1, 0.5],
        "neck_hidden_sizes": [48, 96, 192, 384], "fusion_hidden_size": 64,
        "head_hidden_size": 32)"},
    {"detr", "", R"("model_type": "detr", "architectures": ["DetrForObjectDetection"])",
     R"("num_queries": 100, "encoder_layers": 6, "encoder_ffn_dim": 2048,
        "encoder_attention_heads": 8, "decoder_layers": 6, "decoder_ffn_dim": 2048,
        "decoder_attention_heads": 8, "activation_function": "relu", "d_model": 256,
        "backbone": "resnet50", "dilation": false, "num_channels": 3)"},
    {"rt_detr", "", R"("model_type": "rt_detr")",
     R"("freeze_backbone_batch_norms": true, "encoder_hidden_dim": 256, "encoder_layers": 1,
        "encoder_ffn_dim": 1024, "encoder_attention_heads": 8,
        "encoder_activation_function": "gelu", "activation_function": "silu",
        "hidden_expansion": 1.0, "d_model": 256, "num_queries": 300, "decoder_ffn_dim": 1024,
        "num_feature_levels": 3, "decoder_n_points": 4, "decoder_layers": 6,
        "decoder_attention_heads": 8, "decoder_activation_function": "relu",
        "learn_initial_query": false)"},
    {"flux", "", R"("_class_name": "FluxTransformer2DModel")",
     R"("patch_size": 1, "in_channels": 64, "num_layers": 19, "num_single_layers": 38,
        "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096,
        "pooled_projection_dim": 768, "guidance_embeds": false)"},
    {"sd3", "", R"("_class_name": "SD3Transformer2DModel")",
     R"("sample_size": 128, "patch_size": 2, "in_channels": 16, "num_layers": 18,
        "attention_head_dim": 64, "num_attention_heads": 18, "joint_attention_dim": 4096,
        "caption_projection_dim": 1152, "pooled_projection_dim": 2048, "out_channels": 16)"},
    {"dit", "", R"("_class_name": "DiTTransformer2DModel")",
     R"("num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4, "num_layers": 28,
        "attention_bias": true, "sample_size": 32, "patch_size": 2, "num_embeds_ada_norm": 1000,
        "norm_type": "ada_norm_zero")"},
    {"pixart", "", R"("_class_name": "PixArtTransformer2DModel")",
     R"("num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4,
        "out_channels": 8, "num_layers": 28, "cross_attention_dim": 1152,
        "attention_bias": true, "sample_size": 128, "patch_size": 2,
        "norm_type": "ada_norm_single", "use_additional_conditions": true)"},
    {"unet", "",
     R"("_class_name": "UNet2DConditionModel", "sample_size": 64,
        "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D",
        "CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D",
        "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"])",
     R"("in_channels": 4, "out_channels": 4, "mid_block_type": "UNetMidBlock2DCrossAttn",
        "only_cross_attention": false, "dual_cross_attention": false,
        "resnet_skip_time_act": false, "class_embeddings_concat": false,
        "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "act_fn": "silu",
        "norm_num_groups": 32, "cross_attention_dim": 1280, "transformer_layers_per_block": 1,
        "attention_head_dim": 8, "use_linear_projection": false)"},
    {"autoencoder", "",
     R"("_class_name": "AutoencoderKL", "down_block_types": ["DownEncoderBlock2D"],
        "up_block_types": ["UpDecoderBlock2D"])",
     R"("in_channels": 3, "block_out_channels": [64], "layers_per_block": 1, "act_fn": "silu",
        "latent_channels": 4, "norm_num_groups": 32, "use_quant_conv": true,
        "use_post_quant_conv": true, "mid_block_add_attention": true)"},
};

const Defaults kDecoders[] = {
    {"llama", kDecoder, R"("model_type": "llama")",
     R"("num_key_value_heads": 4, "head_dim": 16, "attention_bias": false, "mlp_bias": false,
        "hidden_act": "silu", "tie_word_embeddings": false)"},
    {"internlm3", kDecoder, R"("model_type": "internlm3")",
     R"("attention_bias": false, "mlp_bias": false)"},
    {"qwen2", kDecoder, R"("model_type": "qwen2", "sliding_window": 16, "max_window_layers": 2)",
     R"("use_sliding_window": false)"},
    {"qwen3", kDecoder, R"("model_type": "qwen3")", R"("attention_bias": false)"},
    {"qwen", kDecoder, R"("model_type": "qwen")", R"("kv_channels": 128, "no_bias": true)"},
    {"olmo", kDecoder, R"("model_type": "olmo")", R"("attention_bias": false)"},
    {"olmo2", kDecoder, R"("model_type": "olmo2")", R"("attention_bias": false)"},
    {"glm4", kDecoder, R"("model_type": "glm4")", R"("attention_bias": true)"},
    {"starcoder2", kDecoder, R"("model_type": "starcoder2")",
     R"("use_bias": true, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true)"},
    {"stablelm", kDecoder, R"("model_type": "stablelm")",
     R"("use_qkv_bias": false, "qk_layernorm": false, "use_parallel_residual": false)"},
    {"mimo", kDecoder, R"("model_type": "mimo")", R"("attention_bias": true)"},
    {"nemotron", kDecoder, R"("model_type": "nemotron")",
     R"("attention_bias": false, "mlp_bias": false, "hidden_act": "relu2")"},
    {"arcee", kDecoder, R"("model_type": "arcee")",
     R"("attention_bias": false, "mlp_bias": false, "hidden_act": "relu2")"},
    {"ernie4_5", kDecoder, R"("model_type": "ernie4_5")",
     R"("use_bias": false, "tie_word_embeddings": true)"},
    {"seed_oss", kDecoder, R"("model_type": "seed_oss")",
     R"("attention_bias": true, "attention_out_bias": false, "mlp_bias": false)"},
    {"exaone", kDecoder, R"("model_type": "exaone")", R"("activation_function": "silu")"},
    {"mllama", kDecoder, R"("model_type": "mllama_text_model")",
     R"("cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38])"},
    {"gpt2", kGpt, R"("model_type": "gpt2", "n_positions": 1024)",
     R"("n_inner": 256, "activation_function": "gelu_new", "tie_word_embeddings": true)"},
    {"gpt_bigcode", kGpt, R"("model_type": "gpt_bigcode", "n_positions": 1024)",
     R"("n_inner": 256, "activation_function": "gelu_pytorch_tanh", "multi_query": true,
        "tie_word_embeddings": true)"},
    {"gpt_neo", "",
     R"("model_type": "gpt_neo", "hidden_size": 64, "num_layers": 2, "num_heads": 4,
        "vocab_size": 100, "max_position_embeddings": 2048)",
     R"("intermediate_size": 256, "window_size": 256, "activation_function": "gelu_new",
        "tie_word_embeddings": true)"},
    {"opt", kDecoderWithoutInner,
     R"("model_type": "opt", "ffn_dim": 96, "max_position_embeddings": 48)",
     R"("enable_bias": true, "do_layer_norm_before": true, "_remove_final_layer_norm": false,
        "word_embed_proj_dim": 64, "activation_function": "relu", "tie_word_embeddings": true)"},
    {"bloom", "",
     R"("model_type": "bloom", "hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100)",
     R"("tie_word_embeddings": true)"},
    {"mpt", "",
     R"("model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100,
        "attn_config": {"alibi": false})",
     R"("expansion_ratio": 4, "no_bias": true, "learned_pos_emb": true, "max_seq_len": 2048,
        "tie_word_embeddings": true)"},
    {"gptj", kGpt, R"("model_type": "gptj")",
     R"("n_inner": 256, "activation_function": "gelu_new", "tie_word_embeddings": false)"},
    {"gpt_neox", kDecoder, R"("model_type": "gpt_neox")",
     R"("attention_bias": true, "use_parallel_residual": true, "hidden_act": "gelu",
        "tie_word_embeddings": false)"},
    {"phi", kDecoder, R"("model_type": "phi")",
     R"("qk_layernorm": false, "hidden_act": "gelu_new", "tie_word_embeddings": false)"},
    {"falcon", kDecoderWithoutInner, R"("model_type": "falcon")",
     R"("new_decoder_architecture": false, "multi_query": true, "parallel_attn": true,
        "bias": false, "alibi": false, "ffn_hidden_size": 256, "activation": "gelu",
        "tie_word_embeddings": true)"},
    {"falcon_of_groups", kDecoderWithoutInner,
     R"("model_type": "falcon", "new_decoder_architecture": true)",
     R"("num_kv_heads": 4, "num_ln_in_parallel_attn": 2)"},
    {"cohere", kDecoder, R"("model_type": "cohere")",
     R"("attention_bias": false, "use_qk_norm": false, "tie_word_embeddings": true,
        "hidden_act": "silu")"},
    {"gemma", kDecoder, R"("model_type": "gemma")",
     R"("attention_bias": false, "tie_word_embeddings": true)"},
    {"gemma2", kDecoder, R"("model_type": "gemma2", "max_position_embeddings": 8192)",
     R"("sliding_window": 4096, "attention_bias": false, "tie_word_embeddings": true)"},
    {"gemma3_text", "",
     R"("model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 7,
        "intermediate_size": 96)",
     R"("num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "vocab_size": 262208, "sliding_window_pattern": 6, "sliding_window": 4096,
        "attention_bias": false)"},
    {"gemma3n_text", kDecoder, R"("model_type": "gemma3n_text")",
     R"("altup_num_inputs": 4, "laurel_rank": 64, "hidden_size_per_layer_input": 256,
        "sliding_window": 512, "attention_bias": false, "vocab_size_per_layer_input": 100,
        "num_kv_shared_layers": 0)"},
    {"gemma4_text", kDecoder, R"("model_type": "gemma4_text")",
     R"("sliding_window": 512, "attention_bias": false, "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0, "enable_moe_block": false)"},
    {"gemma4_full", kDecoder,
     R"("model_type": "gemma4_text", "layer_types": ["full_attention", "full_attention",
        "full_attention", "full_attention"], "num_kv_shared_layers": 1)",
     R"("global_head_dim": 512, "attention_k_eq_v": false, "use_double_wide_mlp": false)"},
    {"mixtral", kExperts, R"("model_type": "mixtral")", R"("sliding_window": 0)"},
    {"phimoe", kExperts, R"("model_type": "phimoe")",
     R"("attention_bias": false, "lm_head_bias": false)"},
    {"qwen2_moe", kExperts, R"("model_type": "qwen2_moe", "moe_intermediate_size": 24)",
     R"("qkv_bias": true, "decoder_sparse_step": 1, "shared_expert_intermediate_size": 0)"},
    {"qwen3_moe", kExperts, R"("model_type": "qwen3_moe", "moe_intermediate_size": 24)",
     R"("attention_bias": false, "decoder_sparse_step": 1)"},
    {"gpt_oss", kExperts, R"("model_type": "gpt_oss")",
     R"("attention_bias": true, "sliding_window": 128)"},
    {"minimax_m2", kExperts, R"("model_type": "minimax_m2")",
     R"("use_qk_norm": true, "use_routing_bias": true)"},
    {"minimax_m3", kExperts, R"("model_type": "minimax_m3", "dense_intermediate_size": 48)",
     R"("use_qk_norm": true, "use_routing_bias": true, "attention_output_gate": false,
        "shared_intermediate_size": 0)"},
    {"llama4_text", kExperts, R"("model_type": "llama4_text", "intermediate_size_mlp": 48)",
     R"("attention_bias": false, "use_qk_norm": true, "interleave_moe_layer_step": 1,
        "attention_chunk_size": 0)"},
    {"glm4_moe", kExperts, R"("model_type": "glm4_moe", "moe_intermediate_size": 24)",
     R"("attention_bias": false, "use_qk_norm": false, "n_shared_experts": 0,
        "first_k_dense_replace": 0, "moe_layer_freq": 1)"},
    {"ernie4_5_moe", kExperts, R"("model_type": "ernie4_5_moe", "moe_intermediate_size": 24)",
     R"("use_bias": false, "moe_num_shared_experts": 0, "moe_layer_interval": 1,
        "moe_layer_start_index": 1, "tie_word_embeddings": true)"},
    {"mimo_v2", kExperts,
     R"("model_type": "mimo_v2", "moe_intermediate_size": 24, "num_key_value_heads": 1)",
     R"("v_head_dim": 16, "attention_bias": false, "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2, "swa_head_dim": 16, "swa_v_head_dim": 16,
        "sliding_window": 128, "add_swa_attention_sink_bias": true,
        "add_full_attention_sink_bias": false, "hybrid_layer_pattern": [0, 1, 1, 1])"},
    {"step3p5", kExperts,
     R"("model_type": "step3p5", "moe_intermediate_size": 24, "sliding_window": 64,
        "layer_types": ["sliding_attention"])",
     R"("num_key_value_heads": 4, "attention_bias": false, "use_head_wise_attn_gate": true,
        "num_sliding_attention_heads": 4, "share_expert_dim": 0, "first_k_dense_replace": 3)"},
    {"deepseek_v3", kLatent, R"("model_type": "deepseek_v3")",
     R"("q_lora_rank": 0, "attention_bias": false, "n_shared_experts": 0,
        "first_k_dense_replace": 0, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0, "num_mtp_modules": 0, "mtp_num_hidden_layers": 0)"},
    {"deepseek_v4", kDecoderWithoutInner,
     R"("model_type": "deepseek_v4", "moe_intermediate_size": 24, "n_routed_experts": 6,
        "num_experts_per_tok": 2, "head_dim": 16, "q_lora_rank": 24, "o_groups": 2,
        "o_lora_rank": 12, "hc_mult": 4, "sliding_window": 32, "index_n_heads": 2,
        "index_head_dim": 8, "index_topk": 4)",
     R"("compress_rate_csa": 4, "compress_rate_hca": 128, "partial_rotary_factor": 0.125,
        "compress_ratios": [128, 128, 128, 4])"},
    {"qwen3_next", kDecoder,
     R"("model_type": "qwen3_next", "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 8, "linear_value_head_dim": 16)",
     R"("linear_conv_kernel_dim": 4, "full_attention_interval": 4, "attention_bias": false,
        "attn_output_gate": true, "num_experts": 0)"},
    {"nemotron_h", "",
     R"("model_type": "nemotron_h", "hidden_size": 64, "vocab_size": 100,
        "hybrid_override_pattern": "M-*E", "num_attention_heads": 4, "head_dim": 16,
        "intermediate_size": 96, "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2,
        "ssm_state_size": 8, "conv_kernel": 4, "moe_intermediate_size": 24,
        "n_routed_experts": 6, "num_experts_per_tok": 2)",
     R"("num_hidden_layers": 4, "mamba_proj_bias": false, "use_conv_bias": true,
        "attention_bias": false, "mlp_bias": false, "mlp_hidden_act": "relu2",
        "moe_latent_size": 0)"},
    {"minimax", kExperts, R"("model_type": "minimax")",
     R"("shared_intermediate_size": 0, "attn_type_list": [1, 0, 1, 0])"},
    {"mamba", "",
     R"("model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100)",
     R"("state_size": 16, "expand": 2, "conv_kernel": 4, "time_step_rank": 4, "use_bias": false,
        "use_conv_bias": true, "tie_word_embeddings": true)"},
    {"mamba2", "",
     R"("model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100)",
     R"("num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128, "conv_kernel": 4,
        "use_bias": false, "use_conv_bias": true, "tie_word_embeddings": false)"},
    {"jamba", "",
     R"("model_type": "jamba", "hidden_size": 64, "num_hidden_layers": 13,
        "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 96,
        "num_experts_per_tok": 2, "num_experts": 16)",
     R"("mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4,
        "mamba_conv_bias": true, "mamba_proj_bias": false, "attn_layer_period": 8,
        "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1)"},
    {"falcon_h1", kDecoder, R"("model_type": "falcon_h1")",
     R"("mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 256,
        "mamba_d_conv": 4, "mamba_conv_bias": true, "mamba_proj_bias": false,
        "mamba_rms_norm": false, "attention_bias": false, "mlp_bias": false)"},
    {"bamba", kDecoder, R"("model_type": "bamba", "attn_layer_indices": [1])",
     R"("mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 256,
        "mamba_d_conv": 4, "mamba_conv_bias": true, "mamba_proj_bias": false,
        "attention_bias": false, "mlp_bias": false)"},
    {"granitemoehybrid", kExperts,
     R"("model_type": "granitemoehybrid", "layer_types": ["attention"])",
     R"("attention_bias": false, "shared_intermediate_size": 0, "mamba_d_state": 256)"},
    {"granitemoe", kExperts, R"("model_type": "granitemoe")", R"("attention_bias": false)"},
    {"lfm2", kDecoder, R"("model_type": "lfm2", "full_attn_idxs": [1])",
     R"("block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256, "conv_L_cache": 3, "conv_bias": false,
        "tie_word_embeddings": true)"},
    {"zamba2", kDecoder,
     R"("model_type": "zamba2", "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"])",
     R"("mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1,
        "n_mamba_heads": 8, "add_bias_linear": false, "num_mem_blocks": 1,
        "use_shared_attention_adapter": false, "adapter_rank": 128, "use_mem_rope": false,
        "attention_head_dim": 32, "num_key_value_heads": 4, "tie_word_embeddings": true)"},
};

std::string name_of(const testing::TestParamInfo<Defaults>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Text, FamilyDefaults, testing::ValuesIn(kText), name_of);
INSTANTIATE_TEST_SUITE_P(Images, FamilyDefaults, testing::ValuesIn(kImages), name_of);
INSTANTIATE_TEST_SUITE_P(Decoders, FamilyDefaults, testing::ValuesIn(kDecoders), name_of);

}  // namespace
}  // namespace rooftile
