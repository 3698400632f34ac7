// Decoders in the manner of Llama: RMS norms, rotary positions, gated MLPs, separate projections.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

Mlp gated_mlp(const Config& config) {
  Mlp mlp;
  mlp.inner = config.size({"intermediate_size"});
  mlp.up_bias = mlp.down_bias = config.flag("mlp_bias", false);
  mlp.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  return mlp;
}

// All layers alike but for their windows.
std::vector<Layer> with_windows(const Layer& layer, const std::vector<bool>& sliding,
                                std::int64_t window) {
  std::vector<Layer> layers(sliding.size(), layer);
  for (std::size_t index = 0; index < layers.size(); ++index) {
    if (sliding[index]) std::get<SelfAttention>(layers[index].mixer).window = window;
  }
  return layers;
}

struct Dense {
  DecoderSizes sizes;
  SelfAttention attention;
  Layer layer;  // without its mixer
};

Dense read_dense(const Config& config) {
  Dense dense;
  dense.sizes = read_decoder_sizes(config);
  dense.attention = attention_of(dense.sizes);
  dense.layer.feed = gated_mlp(config);
  return dense;
}

Model finish(const Config& config, const Request& request, Dense dense, const DecoderFrame& frame,
             const std::vector<bool>& sliding = {}) {
  dense.layer.mixer = dense.attention;
  std::vector<bool> windows = sliding;
  windows.resize(static_cast<std::size_t>(dense.sizes.layers), false);
  return decoder_model(config, request, dense.sizes, frame,
                       with_windows(dense.layer, windows, config.count_or({"sliding_window"}, 0)));
}

// Without a window, one of 0 changes nothing.
std::vector<bool> all_layers(const Config& config, const DecoderSizes& sizes) {
  return sliding_layers(config, sizes.layers, [](std::int64_t) { return true; });
}

Model llama(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  return finish(config, request, dense, frame_of(config));
}

// InternLM 3: a Llama under other names of its biases.
Model internlm3(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", config.flag("qkv_bias", false));
  if (bias != config.flag("mlp_bias", config.flag("bias", false))) {
    config.set_error("qkv_bias: expected the value of \"bias\"");
  }
  set_bias(dense.attention, bias, bias);
  Mlp& mlp = std::get<Mlp>(dense.layer.feed);
  mlp.up_bias = mlp.down_bias = bias;
  return finish(config, request, dense, frame_of(config));
}

Model mistral(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const std::vector<bool> sliding = all_layers(config, dense.sizes);
  return finish(config, request, dense, frame_of(config), sliding);
}

// Layers from max_window_layers on use the window, where it is switched on.
std::vector<bool> qwen_windows(const Config& config, const DecoderSizes& sizes) {
  const bool on = config.flag("use_sliding_window", false);
  const std::int64_t first = config.count_or({"max_window_layers"}, sizes.layers);
  return sliding_layers(config, sizes.layers,
                        [&](std::int64_t index) { return on && index >= first; });
}

Model qwen2(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  set_bias(dense.attention, true, false);
  const std::vector<bool> sliding = qwen_windows(config, dense.sizes);
  return finish(config, request, dense, frame_of(config), sliding);
}

Model qwen3(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  dense.attention.qk_norm = QkNorm::per_head;
  const std::vector<bool> sliding = qwen_windows(config, dense.sizes);
  return finish(config, request, dense, frame_of(config), sliding);
}

// OLMo normalises without weights.
Model olmo(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  dense.layer.norm = {NormKind::layer, false, false, true};
  DecoderFrame frame = frame_of(config);
  frame.final_norm = dense.layer.norm;
  return finish(config, request, dense, frame);
}

// OLMo 2 and 3 normalise each block's result, and queries and keys over all heads.
Model olmo2(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  dense.attention.qk_norm = QkNorm::all_heads;
  dense.layer.placement = Placement::post_block;
  dense.layer.mixer_norm = "post_attention_layernorm";
  dense.layer.feed_norm = "post_feedforward_layernorm";
  const std::vector<bool> sliding =
      sliding_layers(config, dense.sizes.layers, [](std::int64_t i) { return (i + 1) % 4 != 0; });
  return finish(config, request, dense, frame_of(config), sliding);
}

Model phi3(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  dense.attention.fused = "qkv_proj";
  std::get<Mlp>(dense.layer.feed).fused = "gate_up_proj";
  const std::vector<bool> sliding = all_layers(config, dense.sizes);
  return finish(config, request, dense, frame_of(config), sliding);
}

Model glm4(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  set_bias(dense.attention, config.flag("attention_bias", true), false);
  std::get<Mlp>(dense.layer.feed).fused = "gate_up_proj";
  if (request.model_type == "glm4") {
    dense.layer.placement = Placement::sandwich;
    dense.layer.mixer_post_norm = "post_self_attn_layernorm";
    dense.layer.feed_post_norm = "post_mlp_layernorm";
  }
  return finish(config, request, dense, frame_of(config));
}

Model starcoder2(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("use_bias", true);
  set_bias(dense.attention, bias, bias);
  dense.layer.norm = kLayerNorm;
  Mlp mlp = gated_mlp(config);
  mlp.gated = false;
  mlp.up = "c_fc";
  mlp.down = "c_proj";
  mlp.up_bias = mlp.down_bias = bias;
  mlp.activation = read_activation(config, {"hidden_act"}, "gelu_pytorch_tanh");
  dense.layer.feed = mlp;
  DecoderFrame frame = frame_of(config, true);
  frame.final_norm = kLayerNorm;
  const std::vector<bool> sliding = all_layers(config, dense.sizes);
  return finish(config, request, dense, frame, sliding);
}

Model stablelm(const Config& config, const Request& request) {
  if (config.flag("qk_layernorm", false) || config.flag("use_parallel_residual", false)) {
    config.set_error("stablelm with qk_layernorm or use_parallel_residual is not modelled");
  }
  Dense dense = read_dense(config);
  set_bias(dense.attention, config.flag("use_qkv_bias", false), false);
  dense.layer.norm = kLayerNorm;
  DecoderFrame frame = frame_of(config);
  frame.final_norm = kLayerNorm;
  return finish(config, request, dense, frame);
}

// MiMo-7B is a Qwen2 without the output bias, and a module for multi-token prediction beside it.
Model mimo(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  set_bias(dense.attention, config.flag("attention_bias", true), false);
  return finish(config, request, dense, frame_of(config));
}

// Intermediate sizes of Nemotron-NAS blocks: two thirds of the multiple, rounded up to 256.
std::int64_t ffn_width(const Config& ffn, std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const double factor = ffn.number("ffn_mult").value_or(0.0);
  if (!(factor > 0.0 && factor < 1024.0)) {
    ffn.set_error("block_configs: a feed-forward block has no usable ffn_mult");
    return 1;
  }
  const auto width = static_cast<std::int64_t>(2.0 * factor * static_cast<double>(hidden) / 3.0);
  return (width + kMultiple - 1) / kMultiple * kMultiple;
}

Mixer nas_mixer(const Config& block, const SelfAttention& base, std::int64_t heads) {
  const auto attention = block.child("attention");
  if (!attention || attention->flag("no_op", false)) return std::monostate{};
  if (attention->flag("replace_with_linear", false)) return LinearBlock{"self_attn.linear_attn"};
  SelfAttention result = base;
  const std::int64_t group = attention->size({"n_heads_in_group"});
  result.kv_heads = block.divide("num_attention_heads", heads, "n_heads_in_group", group);
  return result;
}

Feed nas_feed(const Config& block, const Mlp& base, std::int64_t hidden) {
  const auto ffn = block.child("ffn");
  if (!ffn || ffn->flag("no_op", false)) return std::monostate{};
  if (ffn->flag("replace_with_linear", false)) return LinearBlock{"mlp.linear_mlp"};
  Mlp mlp = base;
  mlp.inner = ffn_width(*ffn, hidden);
  return mlp;
}

// Nemotron-NAS (DeciLM): Llama layers whose blocks differ, or are missing, layer by layer.
Model nemotron_nas(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  const std::vector<Config> blocks = config.children("block_configs");
  if (static_cast<std::int64_t>(blocks.size()) != sizes.layers) {
    config.set_error(
        fmt::format("block_configs: found {} blocks, expected one for each of {} layers",
                    blocks.size(), sizes.layers));
    return {};
  }
  Mlp mlp;
  mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  std::vector<Layer> layers;
  for (const Config& block : blocks) {
    Layer& layer = layers.emplace_back();
    layer.mixer = nas_mixer(block, attention_of(sizes), sizes.heads);
    layer.feed = nas_feed(block, mlp, sizes.hidden);
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

// Nemotron (Minitron): LayerNorm and a plain MLP with squared ReLU.
Model nemotron(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  dense.layer.norm = kLayerNorm;
  Mlp& mlp = std::get<Mlp>(dense.layer.feed);
  mlp.gated = false;
  mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  DecoderFrame frame = frame_of(config);
  frame.final_norm = kLayerNorm;
  return finish(config, request, dense, frame);
}

// EXAONE 3: Llama in the spelling of GPT-2.
Model exaone(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_layers", "num_hidden_layers"});
  sizes.heads = config.size({"num_attention_heads"});
  sizes.kv_heads = read_kv_heads(config, sizes.heads);
  sizes.head_dim = read_head_dim(config, sizes.hidden, sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  Layer layer;
  layer.mixer_norm = "ln_1";
  layer.feed_norm = "ln_2";
  SelfAttention attention = attention_of(sizes);
  attention.module = "attn.attention";
  attention.out = "out_proj";
  layer.mixer = attention;
  Mlp mlp = gated_mlp(config);
  mlp.gate = "c_fc_0";
  mlp.up = "c_fc_1";
  mlp.down = "c_proj";
  mlp.activation = read_activation(config, {"activation_function", "hidden_act"}, "silu");
  layer.feed = mlp;
  DecoderFrame frame = frame_of(config);
  frame.embedding = "transformer.wte";
  frame.layers = "transformer.h";
  frame.norm = "transformer.ln_f";
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

// EXAONE 4 normalises each block's result as OLMo 2 does, and queries and keys in each head.
Model exaone4(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  dense.attention.qk_norm = QkNorm::per_head;
  dense.layer.placement = Placement::post_block;
  dense.layer.mixer_norm = "post_attention_layernorm";
  dense.layer.feed_norm = "post_feedforward_layernorm";
  const std::int64_t period = config.has("sliding_window_pattern") ? 4 : 1;
  const std::vector<bool> sliding = sliding_layers(
      config, dense.sizes.layers, [&](std::int64_t i) { return (i + 1) % period != 0; });
  return finish(config, request, dense, frame_of(config), sliding);
}

// The first Qwen: one product for queries, keys and values, and half of intermediate_size for each
// of gate and up.
Model qwen(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.heads = sizes.kv_heads = config.size({"num_attention_heads"});
  sizes.head_dim = config.size_or({"kv_channels"}, 128);
  sizes.vocab = config.size({"vocab_size"});
  const bool bias = !config.flag("no_bias", true);
  SelfAttention attention = attention_of(sizes);
  attention.module = "attn";
  attention.fused = "c_attn";
  attention.out = "c_proj";
  set_bias(attention, true, bias);
  Mlp mlp;
  mlp.gate = "w2";
  mlp.up = "w1";
  mlp.down = "c_proj";
  mlp.inner = config.divide("intermediate_size", config.size({"intermediate_size"}), "2", 2);
  mlp.up_bias = mlp.down_bias = bias;
  Layer layer;
  layer.mixer_norm = "ln_1";
  layer.feed_norm = "ln_2";
  layer.mixer = attention;
  layer.feed = mlp;
  DecoderFrame frame = frame_of(config);
  frame.embedding = "transformer.wte";
  frame.layers = "transformer.h";
  frame.norm = "transformer.ln_f";
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

// Arcee's MLP has no gate.
Model arcee(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("attention_bias", false);
  set_bias(dense.attention, bias, bias);
  Mlp& mlp = std::get<Mlp>(dense.layer.feed);
  mlp.gated = false;
  mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  return finish(config, request, dense, frame_of(config));
}

Model ernie4_5(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  const bool bias = config.flag("use_bias", false);
  set_bias(dense.attention, bias, bias);
  Mlp& mlp = std::get<Mlp>(dense.layer.feed);
  mlp.up_bias = mlp.down_bias = bias;
  return finish(config, request, dense, frame_of(config, true));
}

Model seed_oss(const Config& config, const Request& request) {
  Dense dense = read_dense(config);
  set_bias(dense.attention, config.flag("attention_bias", true),
           config.flag("attention_out_bias", false));
  return finish(config, request, dense, frame_of(config));
}

// Llama 3.2 Vision: some layers attend to the image in the place of the text.
Model mllama(const Config& config, const Request& request) {
  // Four tiles of 40 x 40 patches and a class token: Llama-3.2-11B-Vision.
  constexpr std::int64_t kImageTokens = 4 * (40L * 40 + 1);
  constexpr std::int64_t kSpecialTokens = 8;
  const Dense dense = read_dense(config);
  SelfAttention cross = dense.attention;
  cross.module = "cross_attn";
  cross.causal = cross.rotary = false;
  cross.qk_norm = QkNorm::per_head;
  std::vector<std::int64_t> crossing = config.sizes("cross_attention_layers");
  if (!config.has("cross_attention_layers")) crossing = {3, 8, 13, 18, 23, 28, 33, 38};
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < dense.sizes.layers; ++index) {
    Layer& layer = layers.emplace_back(dense.layer);
    if (std::find(crossing.begin(), crossing.end(), index) == crossing.end()) {
      layer.mixer = dense.attention;
      continue;
    }
    layer.cross = cross;
    layer.cross_norm = "input_layernorm";
    layer.extra_parameters = 2;  // gates of both blocks
  }
  DecoderFrame frame = frame_of(config);
  frame.after_embedding = {Parameters{kSpecialTokens * dense.sizes.hidden}};
  Model model = decoder_model(config, request, dense.sizes, frame, std::move(layers));
  model.towers.back().memory_length = kImageTokens;
  model.notes.push_back(
      fmt::format("each sequence attends to one image of {} tokens (four tiles)", kImageTokens));
  return model;
}

}  // namespace

FamilyList llama_families() {
  return {{"llama", llama},
          {"arcee", arcee},
          {"cwm", mistral},
          {"helium", llama},
          {"ministral3", mistral},
          {"mllama_text_model", mllama},
          {"mistral", mistral},
          {"ministral", mistral},
          {"qwen2", qwen2},
          {"qwen2_vl", qwen2},
          {"qwen2_5_vl", qwen2},
          {"qwen2_vl_text", qwen2},
          {"qwen2_5_vl_text", qwen2},
          {"qwen3", qwen3},
          {"qwen3_vl_text", qwen3},
          {"granite", llama},
          {"granite_docling_text", llama},
          {"internlm3", internlm3},
          {"iquestcoder", llama},
          {"exaone", exaone},
          {"exaone4", exaone4},
          {"qwen", qwen},
          {"ernie4_5", ernie4_5},
          {"seed_oss", seed_oss},
          {"smollm3", llama},
          {"olmo", olmo},
          {"olmo2", olmo2},
          {"olmo3", olmo2},
          {"phi3", phi3},
          {"glm", glm4},
          {"glm4", glm4},
          {"starcoder2", starcoder2},
          {"stablelm", stablelm},
          {"mimo", mimo},
          {"nemotron", nemotron},
          {"nemotron-nas", nemotron_nas}};
}

}  // namespace rooftile::hf
