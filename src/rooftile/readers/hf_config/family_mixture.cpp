// Decoders whose feed-forward blocks are mixtures of experts.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

void name_block_sparse(MixtureOfExperts& moe) {
  moe.module = "block_sparse_moe";
  moe.expert.module = "block_sparse_moe.experts.*";
  moe.expert.gate = "w1";
  moe.expert.up = "w3";
  moe.expert.down = "w2";
}

Model mixtral(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  name_block_sparse(moe);
  Layer layer;
  SelfAttention attention = attention_of(sizes);
  attention.window = config.count_or({"sliding_window"}, 0);
  DecoderFrame frame = frame_of(config);
  if (request.model_type == "phimoe") {
    const bool bias = config.flag("attention_bias", false);
    set_bias(attention, bias, bias);
    layer.norm = frame.final_norm = kLayerNorm;
    frame.head_bias = config.flag("lm_head_bias", false);
  }
  layer.mixer = attention;
  layer.feed = moe;
  return decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
}

// Which layers of a Qwen mixture are sparse.
std::vector<bool> qwen_sparse_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::int64_t> dense = config.sizes("mlp_only_layers");
  const std::int64_t step = config.size_or({"decoder_sparse_step"}, 1);
  std::vector<bool> sparse;
  for (std::int64_t index = 0; index < layers; ++index) {
    const bool listed = std::find(dense.begin(), dense.end(), index) != dense.end();
    sparse.push_back(!listed && (index + 1) % step == 0);
  }
  return sparse;
}

Model qwen_moe(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  if (request.model_type == "qwen2_moe") {
    set_bias(attention, config.flag("qkv_bias", true), false);
  } else {
    const bool bias = config.flag("attention_bias", false);
    set_bias(attention, bias, bias);
    attention.qk_norm = QkNorm::per_head;
  }
  const Feed sparse = read_qwen_mixture(config);
  std::vector<Layer> layers;
  for (const bool is_sparse : qwen_sparse_layers(config, sizes.layers)) {
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    layer.feed = is_sparse ? sparse : Feed(read_dense_mlp(config, "intermediate_size"));
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

Model olmoe(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  attention.qk_norm = QkNorm::all_heads;
  Layer layer;
  if (request.model_type == "flex_olmo") {
    layer.placement = Placement::post_block;
    layer.mixer_norm = "post_attention_layernorm";
    layer.feed_norm = "post_feedforward_layernorm";
  }
  layer.mixer = attention;
  layer.feed = read_mixture(config, config.size({"intermediate_size"}));
  return decoder_model(config, request, sizes, frame_of(config), repeat(layer, sizes.layers));
}

// Biases everywhere, attention sinks, and a window in every other layer.
Model gpt_oss(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", true);
  set_bias(attention, bias, bias);
  attention.extra_parameters = sizes.heads;
  attention.sdpa = false;
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  moe.router = "router";
  moe.router_bias = true;
  moe.expert.module = "mlp.experts";
  moe.expert.fused = "gate_up_proj";
  moe.expert.up_bias = moe.expert.down_bias = true;
  moe.expert.layout = GemmLayout::nn;
  const auto sliding =
      sliding_layers(config, sizes.layers, [](std::int64_t index) { return index % 2 == 0; });
  std::vector<Layer> layers;
  for (const bool is_sliding : sliding) {
    attention.window = is_sliding ? config.count_or({"sliding_window"}, 128) : 0;
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    layer.feed = moe;
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

Model minimax_m2(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  if (config.flag("use_qk_norm", true)) attention.qk_norm = QkNorm::all_heads;
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  name_block_sparse(moe);
  moe.sigmoid_scores = true;
  if (config.flag("use_routing_bias", true)) moe.router_extra_parameters = moe.experts;
  Layer layer;
  layer.mixer = attention;
  layer.feed = moe;
  return decoder_model(config, request, sizes, frame_of(config), repeat(layer, sizes.layers));
}

// Dense layers first, then experts with a shared one.
Model minimax_m3(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  if (config.flag("use_qk_norm", true)) attention.qk_norm = QkNorm::per_head;
  if (config.flag("attention_output_gate", false)) attention.output_gate = true;
  MixtureOfExperts moe =
      read_mixture(config, config.size({"moe_intermediate_size", "intermediate_size"}));
  name_block_sparse(moe);
  moe.sigmoid_scores = true;
  if (config.flag("use_routing_bias", true)) moe.router_extra_parameters = moe.experts;
  add_shared_experts(moe, config.count_or({"shared_intermediate_size"}, 0));
  const auto sparse = sparse_layers(config, sizes.layers);
  std::vector<Layer> layers;
  for (const bool is_sparse : sparse) {
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    layer.feed = is_sparse ? Feed(moe) : Feed(read_dense_mlp(config, "dense_intermediate_size"));
  }
  Model model = decoder_model(config, request, sizes, frame_of(config), std::move(layers));
  if (config.has("sparse_attention_config")) {
    model.skipped["sparse attention index"] += sizes.layers;
    model.notes.push_back(
        "block-sparse attention is counted as full attention, and its index projections are left "
        "out");
  }
  return model;
}

// Every interleave_moe_layer_step-th layer has experts; three layers of four attend in chunks.
Model llama4(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  if (config.flag("use_qk_norm", true)) attention.qk_norm = QkNorm::per_head_without_weight;
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  moe.module = "feed_forward";
  moe.router = "router";
  moe.sigmoid_scores = true;
  moe.expert.module = "feed_forward.experts";
  moe.expert.fused = "gate_up_proj";
  moe.expert.layout = GemmLayout::nn;
  moe.shared = read_dense_mlp(config, "intermediate_size");
  moe.shared->module = "feed_forward.shared_expert";
  Mlp dense = read_dense_mlp(config, "intermediate_size_mlp");
  dense.module = "feed_forward";
  const std::int64_t step = config.size_or({"interleave_moe_layer_step"}, 1);
  const std::int64_t chunk = config.count_or({"attention_chunk_size"}, 0);
  const auto chunked =
      sliding_layers(config, sizes.layers, [](std::int64_t index) { return (index + 1) % 4 != 0; });
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    SelfAttention own = attention;
    own.window = chunked[static_cast<std::size_t>(index)] ? chunk : 0;
    own.rotary = chunked[static_cast<std::size_t>(index)];
    if (!own.rotary) own.qk_norm = QkNorm::none;
    Layer& layer = layers.emplace_back();
    layer.mixer = own;
    layer.feed = (index + 1) % step == 0 ? Feed(moe) : Feed(dense);
  }
  Model model = decoder_model(config, request, sizes, frame_of(config), std::move(layers));
  if (chunk > 0) model.notes.push_back("chunked attention is counted as a window of the same size");
  return model;
}

Model glm4_moe(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  set_bias(attention, config.flag("attention_bias", false), false);
  if (config.flag("use_qk_norm", false)) attention.qk_norm = QkNorm::per_head;
  const MixtureOfExperts moe = read_shared_mixture(config);
  std::vector<Layer> layers;
  for (const bool is_sparse : sparse_layers(config, sizes.layers)) {
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    layer.feed = is_sparse ? Feed(moe) : Feed(read_dense_mlp(config, "intermediate_size"));
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

// Experts in each moe_layer_interval-th layer from moe_layer_start_index to moe_layer_end_index.
Model ernie4_5_moe(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  const bool bias = config.flag("use_bias", false);
  SelfAttention attention = attention_of(sizes);
  set_bias(attention, bias, bias);
  MixtureOfExperts moe = read_mixture(config, config.size({"moe_intermediate_size"}));
  moe.router_extra_parameters = moe.experts;  // correction of the choice
  const std::int64_t shared = config.count_or({"moe_num_shared_experts"}, 0);
  add_shared_experts(moe, shared * moe.expert.inner);
  if (moe.shared) moe.shared->up_bias = moe.shared->down_bias = bias;
  Mlp dense = read_dense_mlp(config, "intermediate_size");
  dense.up_bias = dense.down_bias = bias;
  const std::int64_t interval = config.size_or({"moe_layer_interval"}, 1);
  const std::int64_t first = config.count_or({"moe_layer_start_index"}, 1);
  const std::int64_t last = config.count_or({"moe_layer_end_index"}, sizes.layers - 1);
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    const bool sparse = (index + 1) % interval == 0 && index >= first && index <= last;
    layer.feed = sparse ? Feed(moe) : Feed(dense);
  }
  DecoderFrame frame = frame_of(config, true);
  frame.head_bias = bias;
  return decoder_model(config, request, sizes, frame, std::move(layers));
}

// Layers with a window, by hybrid_layer_pattern or layer_types, else all but the first and each
// sixth.
std::vector<bool> mimo_sliding_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::int64_t> pattern = config.sizes("hybrid_layer_pattern");
  return sliding_layers(config, layers, [&](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    return at < pattern.size() ? pattern[at] != 0 : index > 0 && (index + 1) % 6 != 0;
  });
}

// Values narrower than keys; layers with a window have more of both, and attention sinks.
Model mimo_v2(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention full = attention_of(sizes);
  full.value_dim = config.size_or({"v_head_dim"}, sizes.head_dim);
  full.sdpa = false;
  set_bias(full, config.flag("attention_bias", false), false);
  if (config.text("attention_projection_layout") == "fused_qkv") full.fused = "qkv_proj";
  SelfAttention sliding = full;
  sliding.heads = config.size_or({"swa_num_attention_heads"}, full.heads);
  sliding.kv_heads = config.size_or({"swa_num_key_value_heads"}, 2 * full.kv_heads);
  config.divide("num_attention_heads", sliding.heads, "swa_num_key_value_heads", sliding.kv_heads);
  sliding.head_dim = config.size_or({"swa_head_dim"}, full.head_dim);
  sliding.value_dim = config.size_or({"swa_v_head_dim"}, full.value_dim);
  sliding.window = config.count_or({"sliding_window", "sliding_window_size"}, 128);
  if (config.flag("add_swa_attention_sink_bias", true)) sliding.extra_parameters = sliding.heads;
  if (config.flag("add_full_attention_sink_bias", false)) full.extra_parameters = full.heads;
  MixtureOfExperts moe = read_shared_mixture(config);
  moe.router_extra_parameters = 0;
  std::vector<bool> sparse = sparse_layers(config, sizes.layers);
  if (!config.has("moe_layer_freq") && !config.has("mlp_layer_types")) sparse.front() = false;
  const std::vector<bool> windows = mimo_sliding_layers(config, sizes.layers);
  std::vector<Layer> layers;
  for (std::size_t index = 0; index < sparse.size(); ++index) {
    Layer& layer = layers.emplace_back();
    layer.mixer = windows[index] ? sliding : full;
    layer.feed = sparse[index] ? Feed(moe) : Feed(read_dense_mlp(config, "intermediate_size"));
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

// Layers with experts of Step 3.5 and 3.7: "moe_layers_enum": "3,4,5", else as others name them,
// else all from the fourth on.
std::vector<bool> step_sparse_layers(const Config& config, std::int64_t layers) {
  if (config.is_text("moe_layers_enum")) {
    constexpr std::size_t kMostText = 1 << 14;  // of 1024 layers
    const std::string listed = "," + config.text("moe_layers_enum") + ",";
    if (listed.size() > kMostText) config.set_error("moe_layers_enum: expected at most 16 KiB");
    if (config.error()) return std::vector<bool>(static_cast<std::size_t>(layers), true);
    std::vector<bool> sparse;
    for (std::int64_t index = 0; index < layers; ++index) {
      sparse.push_back(contains(listed, fmt::format(",{},", index)));
    }
    return sparse;
  }
  if (config.has("mlp_layer_types") || config.has("moe_layer_freq") ||
      config.has("first_k_dense_replace")) {
    return sparse_layers(config, layers);
  }
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  std::fill_n(sparse.begin(), std::min<std::int64_t>(3, layers), false);
  return sparse;
}

// A gate for each head; layers with a window may have more heads.
Model step3(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.heads = config.size({"num_attention_heads"});
  sizes.kv_heads = config.size_or({"num_key_value_heads", "num_attention_groups"}, sizes.heads);
  sizes.head_dim = read_head_dim(config, sizes.hidden, sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  SelfAttention full = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(full, bias, bias);
  full.qk_norm = QkNorm::per_head;
  full.head_gate = config.flag("use_head_wise_attn_gate", true);
  SelfAttention sliding = full;
  const auto other = config.child("attention_other_setting");
  sliding.heads =
      config.size_or({"num_sliding_attention_heads"},
                     other ? other->size_or({"num_attention_heads"}, full.heads) : full.heads);
  for (const std::int64_t heads : {full.heads, sliding.heads}) {
    config.divide("num_attention_heads", heads, "num_key_value_heads", sizes.kv_heads);
  }
  sliding.window = config.count_or({"sliding_window"}, 0);
  MixtureOfExperts moe = read_mixture(config, config.size({"moe_intermediate_size"}));
  moe.sigmoid_scores = true;
  add_shared_experts(moe, config.count_or({"share_expert_dim", "share_expert_dims"}, 0));
  const std::vector<bool> sparse = step_sparse_layers(config, sizes.layers);
  const std::vector<bool> windows =
      sliding_layers(config, sizes.layers, [](std::int64_t) { return false; });
  std::vector<Layer> layers;
  for (std::size_t index = 0; index < sparse.size(); ++index) {
    Layer& layer = layers.emplace_back();
    layer.mixer = windows[index] ? sliding : full;
    layer.feed = sparse[index] ? Feed(moe) : Feed(read_dense_mlp(config, "intermediate_size"));
  }
  return decoder_model(config, request, sizes, frame_of(config), std::move(layers));
}

}  // namespace

FamilyList mixture_families() {
  return {{"mixtral", mixtral},
          {"phimoe", mixtral},
          {"qwen2_moe", qwen_moe},
          {"qwen3_moe", qwen_moe},
          {"qwen3_vl_moe_text", qwen_moe},
          {"olmoe", olmoe},
          {"flex_olmo", olmoe},
          {"gpt_oss", gpt_oss},
          {"minimax_m2", minimax_m2},
          {"minimax_m3", minimax_m3},
          {"llama4_text", llama4},
          {"glm4_moe", glm4_moe},
          {"solar_open", glm4_moe},
          {"ernie4_5_moe", ernie4_5_moe},
          {"mimo_v2", mimo_v2},
          {"mimo_v2_flash", mimo_v2},
          {"step3p5", step3},
          {"step3p7", step3}};
}

}  // namespace rooftile::hf
