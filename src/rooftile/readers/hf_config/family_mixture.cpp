// Decoders whose feed-forward blocks are mixtures of experts.
#include <fmt/format.h>

#include <algorithm>

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
  add_shared_experts(moe, config, config.count_or({"shared_intermediate_size"}, 0));
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
  add_shared_experts(moe, config, shared * moe.expert.inner);
  if (moe.shared) moe.shared->up_bias = moe.shared->down_bias = bias;
  Mlp dense = read_dense_mlp(config, "intermediate_size");
  dense.up_bias = dense.down_bias = bias;
  const std::int64_t interval = config.size_or({"moe_layer_interval"}, 1);
  const std::int64_t first = config.count_or({"moe_layer_start_index"}, 0);
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

}  // namespace

FamilyList mixture_families() {
  return {{"mixtral", mixtral},
          {"phimoe", mixtral},
          {"qwen2_moe", qwen_moe},
          {"qwen3_moe", qwen_moe},
          {"qwen3_vl_moe_text", qwen_moe},
          {"olmoe", olmoe},
          {"gpt_oss", gpt_oss},
          {"minimax_m2", minimax_m2},
          {"minimax_m3", minimax_m3},
          {"llama4_text", llama4},
          {"glm4_moe", glm4_moe},
          {"ernie4_5_moe", ernie4_5_moe}};
}

}  // namespace rooftile::hf
