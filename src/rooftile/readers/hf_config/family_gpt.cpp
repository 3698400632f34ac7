// Decoders with LayerNorm, biases and plain MLPs: GPT-2 and its relatives.
#include <fmt/format.h>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

// A LayerNorm transformer layer with a plain MLP, in the spelling of GPT-2.
Layer gpt_layer(const Mlp& mlp, const SelfAttention& attention) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.mixer_norm = "ln_1";
  layer.feed_norm = "ln_2";
  layer.mixer = attention;
  layer.feed = mlp;
  return layer;
}

SelfAttention heads_of(const DecoderSizes& sizes, bool bias) {
  SelfAttention attention = attention_of(sizes);
  attention.q_bias = attention.k_bias = attention.v_bias = attention.out_bias = bias;
  attention.rotary = false;
  return attention;
}

DecoderSizes gpt_sizes(const Config& config, Keys hidden, Keys layers, Keys heads) {
  DecoderSizes sizes;
  sizes.hidden = config.size(hidden);
  sizes.layers = read_layers(config, layers);
  sizes.heads = sizes.kv_heads = config.size(heads);
  sizes.head_dim = config.divide(*hidden.begin(), sizes.hidden, *heads.begin(), sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  return sizes;
}

DecoderFrame gpt_frame(const Config& config, bool tied) {
  DecoderFrame frame{.embedding = "transformer.wte",
                     .layers = "transformer.h",
                     .norm = "transformer.ln_f",
                     .head = "lm_head",
                     .final_norm = kLayerNorm,
                     .tied = config.flag("tie_word_embeddings", tied),
                     .head_bias = false,
                     .after_embedding = {}};
  return frame;
}

// GPT-2's Conv1D keeps its weight as [in, out]: layout nn.
Model gpt2(const Config& config, const Request& request) {
  const DecoderSizes sizes =
      gpt_sizes(config, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"},
                {"n_head", "num_attention_heads"});
  SelfAttention attention = heads_of(sizes, true);
  attention.module = "attn";
  attention.fused = "c_attn";
  attention.out = "c_proj";
  attention.layout = GemmLayout::nn;
  Mlp mlp = plain_mlp("c_fc", "c_proj", config.size_or({"n_inner"}, 4 * sizes.hidden), true,
                      read_activation(config, {"activation_function"}, "gelu_new"));
  mlp.layout = GemmLayout::nn;
  DecoderFrame frame = gpt_frame(config, true);
  const std::int64_t positions = config.size_or({"n_positions", "max_position_embeddings"}, 1024);
  frame.after_embedding = {Table{"transformer.wpe", positions, sizes.hidden, true}};
  return decoder_model(config, request, sizes, frame,
                       repeat(gpt_layer(mlp, attention), sizes.layers));
}

// StarCoder: GPT-2 with Linear layers and one key/value head.
Model gpt_bigcode(const Config& config, const Request& request) {
  DecoderSizes sizes =
      gpt_sizes(config, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"},
                {"n_head", "num_attention_heads"});
  if (config.flag("multi_query", true)) sizes.kv_heads = 1;
  SelfAttention attention = heads_of(sizes, true);
  attention.module = "attn";
  attention.fused = "c_attn";
  attention.out = "c_proj";
  const Mlp mlp = plain_mlp("c_fc", "c_proj", config.size_or({"n_inner"}, 4 * sizes.hidden), true,
                            read_activation(config, {"activation_function"}, "gelu"));
  DecoderFrame frame = gpt_frame(config, true);
  const std::int64_t positions = config.size_or({"n_positions"}, 1024);
  frame.after_embedding = {Table{"transformer.wpe", positions, sizes.hidden, true}};
  return decoder_model(config, request, sizes, frame,
                       repeat(gpt_layer(mlp, attention), sizes.layers));
}

// Layer kinds of GPT-Neo: attention_types [[["global", "local"], 12]] repeated, or
// attention_layers.
std::vector<bool> neo_local_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::string> listed = config.texts("attention_layers");
  std::vector<bool> local;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    local.push_back(at < listed.size() ? listed[at] == "local" : index % 2 == 1);
  }
  return local;
}

Model gpt_neo(const Config& config, const Request& request) {
  const DecoderSizes sizes = gpt_sizes(config, {"hidden_size"}, {"num_layers"}, {"num_heads"});
  SelfAttention attention = heads_of(sizes, false);
  attention.module = "attn.attention";
  attention.out = "out_proj";
  attention.out_bias = true;
  attention.sdpa = false;
  const Mlp mlp =
      plain_mlp("c_fc", "c_proj", config.size_or({"intermediate_size"}, 4 * sizes.hidden), true,
                read_activation(config, {"activation_function"}, "gelu_new"));
  std::vector<Layer> layers;
  for (const bool local : neo_local_layers(config, sizes.layers)) {
    attention.window = local ? config.count_or({"window_size"}, 256) : 0;
    layers.push_back(gpt_layer(mlp, attention));
  }
  DecoderFrame frame = gpt_frame(config, true);
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 2048);
  frame.after_embedding = {Table{"transformer.wpe", positions, sizes.hidden, true}};
  return decoder_model(config, request, sizes, frame, std::move(layers));
}

// OPT keeps two rows more than positions, and may embed at another width than the layers'.
Model opt(const Config& config, const Request& request) {
  const DecoderSizes sizes =
      gpt_sizes(config, {"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"});
  const bool bias = config.flag("enable_bias", true);
  SelfAttention attention = heads_of(sizes, bias);
  attention.out = "out_proj";
  Mlp mlp = plain_mlp("fc1", "fc2", config.size({"ffn_dim"}), bias,
                      read_activation(config, {"activation_function"}, "relu"));
  mlp.module = "mlp";
  Layer layer = gpt_layer(mlp, attention);
  layer.mixer_norm = "self_attn_layer_norm";
  layer.feed_norm = "final_layer_norm";
  const bool pre = config.flag("do_layer_norm_before", true);
  layer.placement = pre ? Placement::pre : Placement::post;
  DecoderFrame frame = gpt_frame(config, true);
  frame.embedding_width = config.size_or({"word_embed_proj_dim"}, sizes.hidden);
  frame.embedding = "model.decoder.embed_tokens";
  frame.layers = "model.decoder.layers";
  frame.norm = "model.decoder.final_layer_norm";
  if (!pre || config.flag("_remove_final_layer_norm", false)) frame.final_norm = kNoNorm;
  const std::int64_t positions = config.size({"max_position_embeddings"}) + 2;
  if (frame.embedding_width != sizes.hidden) {  // OPT-350M
    frame.after_embedding.push_back(Projection{
        .path = "model.decoder.project_in", .in = frame.embedding_width, .out = sizes.hidden});
    frame.before_head.push_back(Projection{
        .path = "model.decoder.project_out", .in = sizes.hidden, .out = frame.embedding_width});
  }
  frame.after_embedding.push_back(
      Table{"model.decoder.embed_positions", positions, sizes.hidden, true});
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

Model bloom(const Config& config, const Request& request) {
  const DecoderSizes sizes =
      gpt_sizes(config, {"hidden_size", "n_embed"}, {"n_layer", "num_hidden_layers"},
                {"n_head", "num_attention_heads"});
  SelfAttention attention = heads_of(sizes, true);
  attention.module = "self_attention";
  attention.fused = "query_key_value";
  attention.out = "dense";
  attention.sdpa = false;
  const Mlp mlp = plain_mlp("dense_h_to_4h", "dense_4h_to_h", 4 * sizes.hidden, true, "gelu");
  Layer layer = gpt_layer(mlp, attention);
  layer.mixer_norm = "input_layernorm";
  layer.feed_norm = "post_attention_layernorm";
  DecoderFrame frame = gpt_frame(config, true);
  frame.embedding = "transformer.word_embeddings";
  frame.after_embedding = {
      NormPart{"transformer.word_embeddings_layernorm", kLayerNorm, sizes.hidden}};
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

Model mpt(const Config& config, const Request& request) {
  DecoderSizes sizes = gpt_sizes(config, {"d_model"}, {"n_layers"}, {"n_heads"});
  const auto attention_config = config.child("attn_config");
  const bool alibi = attention_config && attention_config->flag("alibi", true);
  if (attention_config) {
    const std::string type = attention_config->text("attn_type", "multihead_attention");
    if (type == "multiquery_attention") sizes.kv_heads = 1;
    if (type == "grouped_query_attention") {
      sizes.kv_heads = attention_config->size({"kv_n_heads"});
      config.divide("n_heads", sizes.heads, "kv_n_heads", sizes.kv_heads);
    }
  }
  const bool bias = !config.flag("no_bias", true);
  SelfAttention attention = heads_of(sizes, bias);
  attention.module = "attn";
  attention.fused = "Wqkv";
  attention.out = "out_proj";
  attention.sdpa = false;
  Mlp mlp = plain_mlp("up_proj", "down_proj", config.size_or({"expansion_ratio"}, 4) * sizes.hidden,
                      bias, "gelu");
  mlp.module = "ffn";
  Layer layer = gpt_layer(mlp, attention);
  layer.norm = bias ? kLayerNorm : kLayerNormWithoutBias;
  layer.mixer_norm = "norm_1";
  layer.feed_norm = "norm_2";
  DecoderFrame frame = gpt_frame(config, true);
  frame.layers = "transformer.blocks";
  frame.norm = "transformer.norm_f";
  frame.final_norm = layer.norm;
  if (!alibi && config.flag("learned_pos_emb", true)) {
    frame.after_embedding = {
        Table{"transformer.wpe", config.size_or({"max_seq_len"}, 2048), sizes.hidden, true}};
  }
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

}  // namespace

FamilyList gpt_families() {
  return {{"gpt2", gpt2},       {"gpt_bigcode", gpt_bigcode},
          {"gpt_neo", gpt_neo}, {"opt", opt},
          {"bloom", bloom},     {"mpt", mpt}};
}

}  // namespace rooftile::hf
