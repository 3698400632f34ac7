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

// Members that say more together, or in lists, than alone.
constexpr ConfigForm kForms[] = {
    {"yolos", R"("image_size": [96, 64], "patch_size": 16, "num_channels": 4,
      "num_detection_tokens": 10, "use_mid_position_embeddings": false, "num_labels": 7,
      "architectures": ["YolosForObjectDetection"])"},
    {"beit", R"("image_size": 96, "patch_size": 16, "layer_scale_init_value": 0.0,
      "use_relative_position_bias": true, "use_shared_relative_position_bias": true,
      "use_mask_token": true, "use_absolute_position_embeddings": true, "use_mean_pooling":
      false)"},
    {"dinov2", R"("image_size": 98, "patch_size": 14, "use_swiglu_ffn": true, "mlp_ratio": 3,
      "num_register_tokens": 5, "num_labels": 7, "architectures":
      ["Dinov2ForImageClassification"])"},
    {"dinov3_vit", R"("image_size": 96, "num_register_tokens": 4, "use_gated_mlp": true,
      "query_bias": false, "key_bias": true, "value_bias": false, "proj_bias": false, "mlp_bias":
      false)"},
    {"deit", R"("image_size": 96, "patch_size": 8, "qkv_bias": false, "num_labels": 7,
      "architectures": ["DeiTForImageClassificationWithTeacher"])"},
    {"clip_text_model", R"("projection_dim": 48, "architectures":
      ["CLIPTextModelWithProjection"])"},
    {"clip_vision_model", R"("image_size": 96, "patch_size": 16, "projection_dim": 48,
      "architectures": ["CLIPVisionModelWithProjection"])"},
    {"siglip_vision_model", R"("image_size": 96, "patch_size": 16, "vision_use_head": false)"},
    {"siglip2_vision_model", R"("num_patches": 64, "patch_size": 8, "num_channels": 4)"},
    {"FluxTransformer2DModel", R"("num_layers": 2, "num_single_layers": 3, "num_attention_heads":
      4, "attention_head_dim": 24, "joint_attention_dim": 80, "pooled_projection_dim": 56,
      "in_channels": 12, "out_channels": 20, "guidance_embeds": true)"},
    {"FluxTransformer2DModel", R"("num_layers": 1, "num_single_layers": 0, "num_attention_heads":
      4, "attention_head_dim": 24)"},
    {"SD3Transformer2DModel", R"("num_layers": 5, "num_attention_heads": 4, "attention_head_dim":
      24, "caption_projection_dim": 96, "joint_attention_dim": 80, "pooled_projection_dim": 56,
      "in_channels": 12, "out_channels": 20, "sample_size": 24, "patch_size": 4, "qk_norm":
      "rms_norm", "dual_attention_layers": [0, 1, 4, 9])"},
    {"DiTTransformer2DModel", R"("num_layers": 3, "num_attention_heads": 4, "attention_head_dim":
      24, "in_channels": 5, "out_channels": 7, "sample_size": 24, "patch_size": 4,
      "num_embeds_ada_norm": 50, "attention_bias": false)"},
    {"PixArtTransformer2DModel", R"("num_layers": 3, "num_attention_heads": 4,
      "attention_head_dim": 24, "in_channels": 5, "out_channels": 9, "sample_size": 24,
      "patch_size": 4, "caption_channels": 72, "cross_attention_dim": 96,
      "use_additional_conditions": true)"},
    {"PixArtTransformer2DModel", R"("num_layers": 1, "num_attention_heads": 4,
      "attention_head_dim": 24, "sample_size": 128, "cross_attention_dim": 96)"},
    {"detr", R"("backbone": "resnet18", "image_size": [96, 64], "d_model": 64, "num_queries": 10,
      "encoder_attention_heads": 4, "encoder_ffn_dim": 80, "decoder_ffn_dim": 112, "num_labels": 7,
      "architectures": ["DetrForObjectDetection"])"},
    {"detr", R"("backbone": "resnet101", "image_size": 96)"},
    {"deepseek_v32", R"("num_hidden_layers": 3, "index_n_heads": 4, "index_head_dim": 32,
      "index_topk": 48, "max_position_embeddings": 130, "first_k_dense_replace": 1)"},
    {"glm_moe_dsa", R"("num_hidden_layers": 3, "index_n_heads": 4, "index_head_dim": 32,
      "index_topk": 48, "indexer_types": ["full", "shared"], "attention_bias": true)"},
    {"deepseek_v2", R"("q_lora_rank": null, "n_shared_experts": 2, "mlp_layer_types": ["dense",
      "sparse"])"},
    {"granitemoeshared", R"("shared_intermediate_size": 320, "attention_bias": true)"},
    {"granitemoehybrid", R"("num_hidden_layers": 4, "layer_types": ["mamba", "attention",
      "linear_attention"], "shared_intermediate_size": 320, "position_embedding_type": "rope",
      "attention_bias": true)"},
    {"granitemoehybrid", R"("layer_types": ["attention"], "shared_intermediate_size": 320,
      "num_local_experts": 0)"},
    {"bamba", R"("num_hidden_layers": 3, "attn_layer_indices": [1], "attention_bias": true,
      "mlp_bias": true)"},
    {"falcon_h1", R"("attention_bias": true, "mlp_bias": true, "mamba_rms_norm": true,
      "mamba_proj_bias": true)"},
    {"jamba", R"("num_hidden_layers": 6, "attn_layer_period": 3, "attn_layer_offset": 1,
      "expert_layer_period": 4, "expert_layer_offset": 3, "mamba_dt_rank": 24)"},
    {"jamba", R"("num_experts": 1, "mamba_dt_rank": "auto")"},
    {"lfm2", R"("num_hidden_layers": 3, "layer_types": ["conv", "full_attention"],
      "full_attn_idxs": [2], "conv_bias": true)"},
    {"lfm2", R"("block_ff_dim": 700, "intermediate_size": null, "block_ffn_dim_multiplier": 1.5,
      "block_multiple_of": 48)"},
    {"lfm2", R"("block_auto_adjust_ff_dim": false)"},
    {"zamba2", R"("num_hidden_layers": 3, "layers_block_type": ["hybrid", "mamba", "hybrid"],
      "use_shared_attention_adapter": true, "adapter_rank": 16, "num_mem_blocks": 2,
      "use_mem_rope": true, "add_bias_linear": true)"},
    {"zamba2", R"("mamba_headdim": 24, "attention_head_dim": 48, "mamba_ngroups": 2,
      "mamba_expand": 3)"},
    {"falcon_mamba", R"("intermediate_size": 320, "time_step_rank": 24, "use_bias": true)"},
    {"gemma", R"("attention_bias": true)"},
    {"gemma2", R"("num_hidden_layers": 3, "sliding_window": 40, "attention_bias": true)"},
    {"gemma3_text", R"("num_hidden_layers": 7, "sliding_window": 40, "sliding_window_pattern": 3,
      "attention_bias": true)"},
    {"gemma4_text", R"("num_hidden_layers": 7, "sliding_window": 40, "attention_k_eq_v": true,
      "num_global_key_value_heads": 4, "global_head_dim": 96, "num_kv_shared_layers": 2,
      "use_double_wide_mlp": true, "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input":
      900)"},
    {"gemma4_text", R"("num_hidden_layers": 6, "enable_moe_block": true, "attention_bias": true)"},
    {"gemma3n_text", R"("num_hidden_layers": 6, "intermediate_size": [704, 704, 512, 512, 256,
      256], "altup_num_inputs": 3, "laurel_rank": 24, "num_kv_shared_layers": 2,
      "hidden_size_per_layer_input": 48, "vocab_size_per_layer_input": 900, "sliding_window": 40,
      "attention_bias": true, "activation_sparsity_pattern": [0.95])"},
    {"mixtral", R"("sliding_window": 40)"},
    {"phimoe", R"("attention_bias": true, "lm_head_bias": true, "sliding_window": 40)"},
    {"qwen2_moe", R"("num_hidden_layers": 4, "mlp_only_layers": [1], "decoder_sparse_step": 2,
      "shared_expert_intermediate_size": 320, "qkv_bias": false)"},
    {"qwen3_moe", R"("num_hidden_layers": 4, "mlp_only_layers": [0], "attention_bias": true)"},
    {"gpt_oss", R"("num_hidden_layers": 3, "layer_types": ["full_attention", "sliding_attention",
      "full_attention"], "sliding_window": 40, "attention_bias": false)"},
    {"minimax_m3", R"("num_hidden_layers": 3, "dense_intermediate_size": 448,
      "first_k_dense_replace": 1, "shared_intermediate_size": 320, "attention_output_gate": true,
      "use_qk_norm": false, "use_routing_bias": false, "sparse_attention_config": {})"},
    {"minimax_m2", R"("use_qk_norm": false, "use_routing_bias": false)"},
    {"llama4_text", R"("num_hidden_layers": 4, "interleave_moe_layer_step": 2,
      "attention_chunk_size": 40, "attention_bias": true)"},
    {"llama4_text", R"("num_hidden_layers": 4, "use_qk_norm": false)"},
    {"glm4_moe", R"("num_hidden_layers": 3, "first_k_dense_replace": 1, "use_qk_norm": true,
      "attention_bias": true, "n_shared_experts": 2)"},
    {"ernie4_5_moe", R"("num_hidden_layers": 6, "moe_layer_interval": 2, "moe_layer_start_index":
      2, "moe_layer_end_index": 4, "moe_num_shared_experts": 2, "use_bias": true)"},
    {"mimo_v2", R"("num_hidden_layers": 4, "hybrid_layer_pattern": [0, 1, 0],
      "swa_num_attention_heads": 16, "swa_num_key_value_heads": 8, "swa_head_dim": 24,
      "swa_v_head_dim": 16, "v_head_dim": 24, "attention_projection_layout": "fused_qkv",
      "add_full_attention_sink_bias": true, "add_swa_attention_sink_bias": false, "attention_bias":
      true, "sliding_window_size": 40)"},
    {"step3p5", R"("num_hidden_layers": 5, "moe_layers_enum": "1,3", "layer_types":
      ["sliding_attention", "full_attention"], "attention_other_setting": {"num_attention_heads":
      16}, "sliding_window": 40, "share_expert_dims": 320, "attention_bias": true)"},
    {"step3p5", R"("num_hidden_layers": 5, "use_head_wise_attn_gate": false,
      "num_attention_groups": 4, "num_key_value_heads": null)"},
    {"qwen3_next", R"("num_hidden_layers": 5, "full_attention_interval": 3, "attn_output_gate":
      false, "attention_bias": true, "num_experts": 0, "linear_conv_kernel_dim": 3)"},
    {"qwen3_5_moe_text", R"("num_hidden_layers": 3, "layer_types": ["full_attention",
      "linear_attention", "full_attention"], "shared_expert_intermediate_size": 320)"},
    {"nemotron_h", R"("num_hidden_layers": 5, "hybrid_override_pattern": null, "layers_block_type":
      ["linear_attention", "full_attention", "mlp", "moe", "mamba"], "moe_intermediate_size": 160,
      "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_latent_size": 64, "n_shared_experts":
      2, "moe_shared_expert_intermediate_size": 96, "attention_bias": true, "mlp_bias": true,
      "use_bias": true, "use_conv_bias": false)"},
    {"minimax", R"("num_hidden_layers": 3, "attn_type_list": [0, 1], "shared_intermediate_size":
      0)"},
    {"minimax", R"("num_hidden_layers": 3, "layer_types": ["linear_attention",
      "full_attention"])"},
    {"gpt_neo", R"("num_layers": 3, "attention_layers": ["local", "global", "local"],
      "window_size": 40, "intermediate_size": null)"},
    {"opt", R"("do_layer_norm_before": false, "word_embed_proj_dim": null, "enable_bias": false)"},
    {"opt", R"("_remove_final_layer_norm": true)"},
    {"mpt", R"("attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 4, "alibi":
      false}, "max_seq_len": 80, "no_bias": false, "expansion_ratio": 3)"},
    {"mpt", R"("attn_config": {"attn_type": "multiquery_attention"})"},
    {"gpt_bigcode", R"("multi_query": false, "n_inner": 704)"},
    {"llama", R"("attention_bias": true, "mlp_bias": true, "head_dim": 48)"},
    {"internlm3", R"("qkv_bias": true, "bias": true)"},
    {"qwen2", R"("num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 40,
      "max_window_layers": 1)"},
    {"qwen3", R"("num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 40,
      "max_window_layers": 2, "attention_bias": true)"},
    {"mistral", R"("num_hidden_layers": 3, "sliding_window": 40, "layer_types":
      ["sliding_attention", "full_attention"])"},
    {"olmo2", R"("num_hidden_layers": 5, "sliding_window": 40, "attention_bias": true)"},
    {"phi3", R"("sliding_window": 40)"},
    {"starcoder2", R"("sliding_window": 40, "use_bias": false)"},
    {"exaone4", R"("num_hidden_layers": 5, "sliding_window": 40, "sliding_window_pattern":
      "LLLG")"},
    {"exaone4", R"("num_hidden_layers": 2, "sliding_window": 40)"},
    {"qwen", R"("no_bias": false, "kv_channels": 24)"},
    {"seed_oss", R"("attention_bias": false, "attention_out_bias": true)"},
    {"mllama_text_model", R"("num_hidden_layers": 4, "cross_attention_layers": [1, 3])"},
    {"mllama_text_model", R"("num_hidden_layers": 9)"},
    {"falcon", R"("new_decoder_architecture": true, "num_kv_heads": 4, "bias": true, "alibi": true,
      "ffn_hidden_size": 576)"},
    {"falcon", R"("new_decoder_architecture": true, "num_ln_in_parallel_attn": 1)"},
    {"falcon", R"("parallel_attn": false, "multi_query": false)"},
    {"gpt_neox", R"("use_parallel_residual": false, "attention_bias": false)"},
    {"cohere2", R"("num_hidden_layers": 5, "sliding_window": 40, "attention_bias": true,
      "tie_word_embeddings": false)"},
    {"t5", R"("feed_forward_proj": "gated-gelu", "num_decoder_layers": 3, "tie_word_embeddings":
      false)"},
    {"t5", R"("feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 24)"},
    {"switch_transformers", R"("num_layers": 4, "num_decoder_layers": 6,
      "num_sparse_encoder_layers": 2, "num_sparse_decoder_layers": 0, "router_bias": true)"},
    {"switch_transformers", R"("num_layers": 6, "num_sparse_encoder_layers": 2,
      "num_sparse_decoder_layers": 6)"},
    {"wav2vec2", R"("conv_dim": [48, 64, 80], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 3],
      "feat_extract_norm": "layer", "conv_bias": true, "do_stable_layer_norm": true,
      "num_conv_pos_embeddings": 19, "num_conv_pos_embedding_groups": 8)"},
    {"swin", R"("image_size": [96, 72], "patch_size": 8, "embed_dim": 48, "window_size": 5,
      "depths": [1, 2], "num_heads": [2, 4], "mlp_ratio": 3.0, "qkv_bias": false,
      "use_absolute_embeddings": true, "num_layers": null)"},
    {"resnet", R"("image_size": 96, "layer_type": "basic", "depths": [1, 3], "hidden_sizes": [64,
      96], "downsample_in_first_stage": true, "embedding_size": 40)"},
    {"resnet", R"("image_size": 96, "depths": [2, 2], "hidden_sizes": [64, 96],
      "downsample_in_bottleneck": true, "num_channels": 4)"},
    {"convnext", R"("image_size": [96, 64], "depths": [1, 2], "hidden_sizes": [32, 48],
      "patch_size": 8, "layer_scale_init_value": 0.0)"},
    {"segformer", R"("image_size": [96, 64], "depths": [1, 2], "hidden_sizes": [32, 64],
      "sr_ratios": [4, 1], "patch_sizes": [5, 3], "strides": [3, 2], "num_attention_heads": [2, 4],
      "mlp_ratios": [2, 3], "decoder_hidden_size": 48, "architectures":
      ["SegformerForSemanticSegmentation"])"},
    {"sam_vision_model", R"("image_size": [256, 256], "patch_size": 16, "num_hidden_layers": 5,
      "global_attn_indexes": [1, 4], "window_size": 5, "mlp_ratio": 3.0, "output_channels": 48,
      "qkv_bias": false, "use_abs_pos": false)"},
    {"sam_vision_model", R"("image_size": 128, "window_size": 0, "use_rel_pos": false, "mlp_dim":
      320)"},
    {"sam2_vision_model", R"("image_size": 256, "blocks_per_stage": [1, 3, 2],
      "embed_dim_per_stage": [32, 64, 96], "num_attention_heads_per_stage": [1, 2, 4],
      "window_size_per_stage": [5, 3, 6], "global_attention_blocks": [2], "fpn_top_down_levels":
      [1], "fpn_hidden_size": 48, "patch_kernel_size": [5], "patch_stride": [3], "patch_padding":
      [2], "num_query_pool_stages": 1, "mlp_ratio": 3.0,
      "window_positional_embedding_background_size": [6])"},
    {"bert", R"("is_decoder": true, "type_vocab_size": 0, "embedding_size": 128)"},
    {"dpr", R"("projection_dim": 48, "architectures": ["DPRReader"])"},
    {"roberta", R"("max_position_embeddings": 2)"},
    {"mpnet", R"("max_position_embeddings": 3, "relative_attention_num_buckets": 24)"},
    {"longformer", R"("attention_window": [16, 32], "max_position_embeddings": 2)"},
    {"xlnet", R"("attn_type": "uni", "ff_activation": "relu", "vocab_size": null, "n_token":
      900)"},
    {"esm", R"("position_embedding_type": "rotary", "emb_layer_norm_before": true)"},
    {"nomic_bert", R"("hidden_size": null, "num_hidden_layers": null, "num_attention_heads": null,
      "intermediate_size": null, "n_inner": 576, "max_position_embeddings": null,
      "type_vocab_size": 0)"},
    {"modernbert", R"("num_hidden_layers": 4, "global_attn_every_n_layers": 2, "local_attention":
      40, "attention_bias": true, "mlp_bias": true, "norm_bias": true, "classifier_bias": true,
      "decoder_bias": false, "architectures": ["ModernBertForMaskedLM"])"},
    {"layoutlmv3", R"("visual_embed": false, "has_relative_attention_bias": false,
      "has_spatial_attention_bias": false, "coordinate_size": 40, "shape_size": 48,
      "max_2d_position_embeddings": 200)"},
    {"layoutlmv3", R"("input_size": 96, "patch_size": 10, "num_channels": 4, "rel_pos_bins": 24,
      "rel_2d_pos_bins": 40, "num_labels": 10, "architectures":
      ["LayoutLMv3ForTokenClassification"])"},
    {"layoutlmv3", R"("num_labels": 9, "max_position_embeddings": 2, "architectures":
      ["LayoutLMv3ForTokenClassification"])"},
    {"UNet2DConditionModel", R"("sample_size": 16, "in_channels": 5, "out_channels": 3,
      "norm_num_groups": 8, "block_out_channels": [32, 64, 96], "layers_per_block": [1, 2, 3],
      "attention_head_dim": [2, 4, 8], "transformer_layers_per_block": [1, 2, 3],
      "cross_attention_dim": [96, 96, 96], "use_linear_projection": true, "addition_embed_type":
      "text_time", "projection_class_embeddings_input_dim": 240, "act_fn": "gelu",
      "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"],
      "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"])"},
    {"UNet2DConditionModel", R"("sample_size": 16, "norm_num_groups": 8, "block_out_channels":
      [32], "layers_per_block": 1, "attention_head_dim": 8, "num_attention_heads": 4,
      "transformer_layers_per_block": 1, "cross_attention_dim": 96, "down_block_types":
      ["DownBlock2D"], "up_block_types": ["UpBlock2D"])"},
    {"AutoencoderKL", R"("sample_size": 32, "in_channels": 1, "latent_channels": 6,
      "layers_per_block": 1, "norm_num_groups": 8, "block_out_channels": [16, 24, 32],
      "use_quant_conv": false, "use_post_quant_conv": false, "mid_block_add_attention": false,
      "act_fn": "relu", "down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D",
      "DownEncoderBlock2D"], "up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D",
      "UpDecoderBlock2D"])"},
    {"rt_detr", R"("image_size": [96, 64], "backbone_config": {"embedding_size": 24,
      "hidden_sizes": [32, 48, 64, 96], "depths": [1, 2, 1, 1], "layer_type": "basic"},
      "encoder_hidden_dim": 48, "encoder_layers": 2, "encoder_attention_heads": 4,
      "encoder_ffn_dim": 80, "d_model": 64, "decoder_layers": 3, "decoder_attention_heads": 8,
      "decoder_ffn_dim": 112, "decoder_n_points": 2, "num_queries": 30, "num_denoising": 0,
      "learn_initial_query": true, "freeze_backbone_batch_norms": false, "hidden_expansion": 0.5,
      "num_labels": 9, "activation_function": "gelu", "encoder_activation_function": "relu",
      "decoder_activation_function": "silu")"},
    {"wavlm", R"("max_position_embeddings": null, "feat_extract_norm": "layer", "architectures":
      ["WavLMForCTC"])"},
    {"whisper", R"("num_mel_bins": 40, "max_source_positions": 150, "max_target_positions": 48,
      "activation_function": "relu")"},
    {"sam2", R"("vision_config": {"backbone_config": {"image_size": [128, 96], "blocks_per_stage":
      [2, 1], "embed_dim_per_stage": [32, 48], "num_attention_heads_per_stage": [2, 4],
      "window_size_per_stage": [4, 5], "global_attention_blocks": [1], "num_query_pool_stages": 0},
      "fpn_top_down_levels": [0, 1], "fpn_hidden_size": 40})"},
    {"deepseek_v4", R"("num_hidden_layers": 5, "layer_types": ["sliding_attention",
      "compressed_sparse_attention", "heavily_compressed_attention"], "compress_rates":
      {"compressed_sparse_attention": 8, "heavily_compressed_attention": 16},
      "partial_rotary_factor": 0.25, "max_position_embeddings": 130)"},
    {"deepseek_v4", R"("num_hidden_layers": 4, "compress_ratios": [0, 6, 24, 6],
      "compress_rate_csa": 6, "compress_rate_hca": 24, "mlp_layer_types": ["hash_moe", "moe"])"}};

}  // namespace

std::span<const ConfigForm> config_forms() { return kForms; }

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
