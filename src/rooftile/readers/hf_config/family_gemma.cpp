// Gemma 1 to 4 and 3n: tied embeddings, norms on both sides of a block from the second on, windows.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

Mlp gemma_mlp(const Config& config) {
  Mlp mlp;
  mlp.inner = config.size({"intermediate_size"});
  mlp.activation = read_activation(config, {"hidden_activation", "hidden_act"}, "gelu");
  return mlp;
}

Layer sandwich_layer(const Mlp& mlp) {
  Layer layer;
  layer.placement = Placement::sandwich;
  layer.feed_norm = "pre_feedforward_layernorm";
  layer.feed = mlp;
  return layer;
}

Model gemma(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  Layer layer;
  layer.mixer = attention;
  layer.feed = gemma_mlp(config);
  return decoder_model(config, request, sizes, frame_of(config, true), repeat(layer, sizes.layers));
}

// Defaults of Transformers' Gemma3TextConfig, which published nested configs leave out.
DecoderSizes gemma3_sizes(const Config& config) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.heads = config.size_or({"num_attention_heads"}, 8);
  sizes.kv_heads = config.size_or({"num_key_value_heads"}, 4);
  config.divide("num_attention_heads", sizes.heads, "num_key_value_heads", sizes.kv_heads);
  sizes.head_dim = config.size_or({"head_dim"}, 256);
  sizes.vocab = config.size_or({"vocab_size"}, 262208);
  return sizes;
}

Model gemma2(const Config& config, const Request& request) {
  const bool third = request.model_type == "gemma3_text";
  const DecoderSizes sizes = third ? gemma3_sizes(config) : read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  if (third) attention.qk_norm = QkNorm::per_head;
  const std::int64_t period = third ? config.size_or({"sliding_window_pattern"}, 6) : 2;
  const auto sliding = sliding_layers(
      config, sizes.layers, [&](std::int64_t index) { return (index + 1) % period != 0; });
  std::vector<Layer> layers;
  for (const bool is_sliding : sliding) {
    attention.window = is_sliding ? config.count_or({"sliding_window"}, 4096) : 0;
    Layer& layer = layers.emplace_back(sandwich_layer(gemma_mlp(config)));
    layer.mixer = attention;
  }
  return decoder_model(config, request, sizes, frame_of(config, true), std::move(layers));
}

// A full-attention layer of Gemma 4 has wider heads, and may use its keys as values.
SelfAttention gemma4_full_attention(const Config& config, SelfAttention attention) {
  attention.window = 0;
  attention.head_dim = config.size_or({"global_head_dim"}, 512);
  attention.value_is_key = config.flag("attention_k_eq_v", false);
  if (attention.value_is_key) {
    attention.kv_heads = config.size_or({"num_global_key_value_heads"}, attention.kv_heads);
    config.divide("num_attention_heads", attention.heads, "num_global_key_value_heads",
                  attention.kv_heads);
  }
  return attention;
}

MixtureOfExperts gemma4_experts(const Config& config, std::int64_t hidden) {
  MixtureOfExperts moe =
      read_mixture(config, config.size({"moe_intermediate_size", "expert_intermediate_size"}));
  moe.module = "";
  moe.router = "router.proj";
  moe.expert.module = "experts";
  moe.expert.fused = "gate_up_proj";
  moe.router_extra_parameters = hidden + moe.experts;  // scale, per_expert_scale
  moe.parallel = gemma_mlp(config);
  return moe;
}

// The small models (E2B, E4B) add a second embedding, looked up once and mixed in at each layer.
void add_per_layer_embedding(const Config& config, const DecoderSizes& sizes, std::int64_t width,
                             DecoderFrame& frame) {
  const std::int64_t vocab = config.size_or({"vocab_size_per_layer_input"}, sizes.vocab);
  const std::int64_t all = width * sizes.layers;
  frame.after_embedding = {Parameters{vocab * all + sizes.hidden * all + width}};
}

Model gemma4(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention base = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(base, bias, bias);
  base.qk_norm = QkNorm::per_head;
  base.window = config.count_or({"sliding_window"}, 512);
  const std::int64_t shared = config.count_or({"num_kv_shared_layers"}, 0);
  const std::int64_t per_layer = config.count_or({"hidden_size_per_layer_input"}, 0);
  const auto sliding =
      sliding_layers(config, sizes.layers, [](std::int64_t index) { return (index + 1) % 6 != 0; });
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back(sandwich_layer(gemma_mlp(config)));
    SelfAttention attention =
        sliding[static_cast<std::size_t>(index)] ? base : gemma4_full_attention(config, base);
    attention.shares_kv = index >= sizes.layers - shared;
    if (attention.shares_kv && config.flag("use_double_wide_mlp", false)) {
      std::get<Mlp>(layer.feed).inner *= 2;
    }
    layer.mixer = attention;
    layer.per_layer_input = per_layer;
    if (config.flag("enable_moe_block", false)) layer.feed = gemma4_experts(config, sizes.hidden);
  }
  DecoderFrame frame = frame_of(config, true);
  if (per_layer > 0) add_per_layer_embedding(config, sizes, per_layer, frame);
  Model model = decoder_model(config, request, sizes, frame, std::move(layers));
  if (per_layer > 0) model.skipped["per-layer input embedding"] += 1;
  return model;
}

// The width of each layer's MLP: one size, or a list.
std::vector<std::int64_t> gemma3n_widths(const Config& config, std::int64_t layers) {
  std::vector<std::int64_t> widths = config.sizes("intermediate_size");
  if (widths.size() == 1) widths.resize(static_cast<std::size_t>(layers), widths.front());
  const bool usable =
      static_cast<std::int64_t>(widths.size()) == layers &&
      std::none_of(widths.begin(), widths.end(), [](auto size) { return size < 1; });
  if (usable) return widths;
  config.set_error("intermediate_size: expected one positive size, or one for each layer");
  return std::vector<std::int64_t>(static_cast<std::size_t>(layers), 1);
}

// The projections between one stream and several, and the second embedding.
DecoderFrame gemma3n_frame(const Config& config, const DecoderSizes& sizes, std::int64_t streams,
                           std::int64_t width) {
  DecoderFrame frame = frame_of(config, true);
  const std::int64_t all = width * sizes.layers;
  const auto project = [&](std::vector<Part>& parts, std::string path, std::int64_t out) {
    parts.push_back(
        Projection{.path = std::move(path), .in = sizes.hidden, .out = out, .branch = true});
  };
  project(frame.after_embedding, "model.per_layer_model_projection", all);
  const std::int64_t vocab = config.size_or({"vocab_size_per_layer_input"}, sizes.vocab);
  frame.after_embedding.push_back(Parameters{vocab * all + width});
  for (std::int64_t index = 0; index + 1 < streams; ++index) {
    project(frame.after_embedding, fmt::format("model.altup_projections.{}", index), sizes.hidden);
    project(frame.after_layers, fmt::format("model.altup_unembed_projections.{}", index),
            sizes.hidden);
  }
  frame.after_layers.push_back(
      Pointwise{"model.mean_of_streams", "mean_of_streams", sizes.hidden, streams});
  return frame;
}

// Gemma 3n: streams of which a layer computes one, a second embedding for each layer, and later
// layers that read the keys of earlier ones.
Model gemma3n(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  const AlternatingUpdates updates{config.size_or({"altup_num_inputs"}, 4),
                                   config.size_or({"laurel_rank"}, 64)};
  constexpr std::int64_t kMostStreams = 64;
  if (updates.streams > kMostStreams) {
    config.set_error("altup_num_inputs: expected at most 64 streams");
    return {};
  }
  const std::int64_t shared = config.count_or({"num_kv_shared_layers"}, 0);
  const std::int64_t width = config.size_or({"hidden_size_per_layer_input"}, 256);
  const auto sliding =
      sliding_layers(config, sizes.layers, [](std::int64_t index) { return (index + 1) % 5 != 0; });
  const std::vector<std::int64_t> widths = gemma3n_widths(config, sizes.layers);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  attention.qk_norm = QkNorm::per_head;
  attention.value_norm = true;
  std::vector<Layer> layers;
  for (std::size_t index = 0; index < widths.size(); ++index) {
    attention.window = sliding[index] ? config.count_or({"sliding_window"}, 512) : 0;
    attention.shares_kv = static_cast<std::int64_t>(index) >= sizes.layers - shared;
    Mlp mlp;
    mlp.inner = widths[index];
    mlp.activation = read_activation(config, {"hidden_activation", "hidden_act"}, "gelu");
    Layer& layer = layers.emplace_back(sandwich_layer(mlp));
    layer.mixer = attention;
    layer.per_layer_input = width;
    layer.alternating = updates;
  }
  Model model =
      decoder_model(config, request, sizes, gemma3n_frame(config, sizes, updates.streams, width),
                    std::move(layers));
  model.skipped["per-layer input embedding"] += 1;
  if (config.has("activation_sparsity_pattern")) model.skipped["activation sparsity"] += 1;
  return model;
}

}  // namespace

FamilyList gemma_families() {
  return {{"gemma", gemma},
          {"gemma2", gemma2},
          {"gemma3_text", gemma2},
          {"gemma3n_text", gemma3n},
          {"gemma4_text", gemma4}};
}

}  // namespace rooftile::hf
