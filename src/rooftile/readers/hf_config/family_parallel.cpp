// Decoders whose attention and MLP run side by side on one input.
#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

void set_bias_all(SelfAttention& attention, bool bias) { set_bias(attention, bias, bias); }

Model gptj(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"n_embd", "hidden_size"});
  sizes.layers = read_layers(config, {"n_layer", "num_hidden_layers"});
  sizes.heads = sizes.kv_heads = config.size({"n_head", "num_attention_heads"});
  sizes.head_dim = config.divide("n_embd", sizes.hidden, "n_head", sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  SelfAttention attention = attention_of(sizes);
  attention.module = "attn";
  attention.out = "out_proj";
  attention.sdpa = false;
  if (request.model_type == "codegen") attention.fused = "qkv_proj";
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = Placement::parallel_shared;
  layer.mixer_norm = "ln_1";
  layer.mixer = attention;
  layer.feed = plain_mlp("fc_in", "fc_out", config.size_or({"n_inner"}, 4 * sizes.hidden), true,
                         read_activation(config, {"activation_function"}, "gelu_new"));
  const DecoderFrame frame{.embedding = "transformer.wte",
                           .layers = "transformer.h",
                           .norm = "transformer.ln_f",
                           .head = "lm_head",
                           .final_norm = kLayerNorm,
                           .tied = config.flag("tie_word_embeddings", false),
                           .head_bias = true,
                           .after_embedding = {}};
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

Model gpt_neox(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  attention.module = "attention";
  attention.fused = "query_key_value";
  attention.out = "dense";
  set_bias_all(attention, config.flag("attention_bias", true));
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement =
      config.flag("use_parallel_residual", true) ? Placement::parallel_two : Placement::pre;
  layer.mixer = attention;
  layer.feed = plain_mlp("dense_h_to_4h", "dense_4h_to_h", config.size({"intermediate_size"}), true,
                         read_activation(config, {"hidden_act"}, "gelu"));
  const DecoderFrame frame{.embedding = "gpt_neox.embed_in",
                           .layers = "gpt_neox.layers",
                           .norm = "gpt_neox.final_layer_norm",
                           .head = "embed_out",
                           .final_norm = kLayerNorm,
                           .tied = config.flag("tie_word_embeddings", false),
                           .head_bias = false,
                           .after_embedding = {}};
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

Model phi(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  attention.out = "dense";
  set_bias_all(attention, true);
  if (config.flag("qk_layernorm", false)) {
    config.set_error("phi with qk_layernorm is not modelled");
  }
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = Placement::parallel_shared;
  layer.mixer = attention;
  layer.feed = plain_mlp("fc1", "fc2", config.size({"intermediate_size"}), true,
                         read_activation(config, {"hidden_act"}, "gelu_new"));
  DecoderFrame frame;
  frame.norm = "model.final_layernorm";
  frame.final_norm = kLayerNorm;
  frame.tied = config.flag("tie_word_embeddings", false);
  frame.head_bias = true;
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

// Falcon-40B was published as RefinedWeb, before the key for it.
bool has_grouped_queries(const Config& config) {
  return config.flag("new_decoder_architecture", config.text("model_type") == "RefinedWeb");
}

std::int64_t falcon_kv_heads(const Config& config, std::int64_t heads) {
  if (has_grouped_queries(config)) {
    return config.size_or({"num_kv_heads", "n_head_kv"}, heads);
  }
  return config.flag("multi_query", true) ? 1 : heads;
}

// 7B: one norm, multi-query. 40B and 180B (new_decoder_architecture): two norms, grouped queries.
Model falcon(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers", "n_layer"});
  sizes.heads = config.size({"num_attention_heads", "n_head"});
  sizes.head_dim = config.divide("hidden_size", sizes.hidden, "num_attention_heads", sizes.heads);
  sizes.kv_heads = falcon_kv_heads(config, sizes.heads);
  config.divide("num_attention_heads", sizes.heads, "num_kv_heads", sizes.kv_heads);
  sizes.vocab = config.size({"vocab_size"});
  const bool bias = config.flag("bias", false);
  const bool grouped = has_grouped_queries(config);
  SelfAttention attention = attention_of(sizes);
  attention.module = "self_attention";
  attention.fused = "query_key_value";
  attention.out = "dense";
  attention.rotary = !config.flag("alibi", false);
  set_bias_all(attention, bias);
  Layer layer;
  layer.norm = kLayerNorm;
  layer.mixer = attention;
  layer.feed = plain_mlp("dense_h_to_4h", "dense_4h_to_h",
                         config.size_or({"ffn_hidden_size"}, 4 * sizes.hidden), bias,
                         read_activation(config, {"activation"}, "gelu"));
  if (grouped && config.size_or({"num_ln_in_parallel_attn"}, 2) == 2) {
    layer.placement = Placement::parallel_two;
    layer.mixer_norm = "ln_attn";
    layer.feed_norm = "ln_mlp";
  } else if (grouped || config.flag("parallel_attn", true)) {
    layer.placement = Placement::parallel_shared;
  }
  const DecoderFrame frame{.embedding = "transformer.word_embeddings",
                           .layers = "transformer.h",
                           .norm = "transformer.ln_f",
                           .head = "lm_head",
                           .final_norm = kLayerNorm,
                           .tied = config.flag("tie_word_embeddings", true),
                           .head_bias = false,
                           .after_embedding = {}};
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

// Cohere Command R: LayerNorm without bias, gated MLP, tied head.
Model cohere(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  set_bias_all(attention, config.flag("attention_bias", false));
  if (config.flag("use_qk_norm", false))
    config.set_error("cohere with use_qk_norm is not modelled");
  Mlp mlp;
  mlp.inner = config.size({"intermediate_size"});
  mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  const auto sliding =
      sliding_layers(config, sizes.layers, [](std::int64_t index) { return (index + 1) % 4 != 0; });
  std::vector<Layer> layers;
  for (const bool is_sliding : sliding) {
    Layer& layer = layers.emplace_back();
    attention.window = is_sliding ? config.count_or({"sliding_window"}, 0) : 0;
    layer.norm = kLayerNormWithoutBias;
    layer.placement = Placement::parallel_shared;
    layer.mixer = attention;
    layer.feed = mlp;
  }
  DecoderFrame frame;
  frame.final_norm = kLayerNormWithoutBias;
  frame.tied = config.flag("tie_word_embeddings", true);
  return decoder_model(config, request, sizes, frame, std::move(layers));
}

}  // namespace

FamilyList parallel_families() {
  return {{"gptj", gptj},         {"codegen", gptj},  {"gpt_neox", gpt_neox},
          {"phi", phi},           {"falcon", falcon}, {"RefinedWebModel", falcon},
          {"RefinedWeb", falcon}, {"cohere", cohere}, {"cohere2", cohere}};
}

}  // namespace rooftile::hf
