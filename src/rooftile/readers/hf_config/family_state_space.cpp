// Decoders of state space models, alone or with attention: Mamba, Jamba, Falcon-H1, Bamba, Granite
// 4, Zamba 2; and LFM2 with its short convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

// A count of layers with a scan, and what of it is counted.
void note_scans(std::int64_t layers, Model& model) {
  if (layers == 0) return;
  model.skipped["selective state space scan"] += layers;
  model.notes.push_back(
      "Mamba: projections and short convolutions are exact; of the scan only the memory traffic of "
      "its inputs and outputs is counted");
}

// The rank of step sizes: "auto" is a sixteenth of the width.
std::int64_t step_rank(const Config& config, std::string_view key, std::int64_t hidden) {
  constexpr std::int64_t kShare = 16;
  const std::vector<std::int64_t> stated =
      config.has(key) && !config.is_text(key) ? config.sizes(key) : std::vector<std::int64_t>{};
  return stated.empty() ? (hidden + kShare - 1) / kShare : std::max<std::int64_t>(1, stated[0]);
}

Mamba1 read_mamba1(const Config& config, std::int64_t hidden) {
  Mamba1 mamba;
  mamba.inner = config.size_or({"intermediate_size"}, config.size_or({"expand"}, 2) * hidden);
  mamba.state = config.size_or({"state_size"}, 16);
  mamba.conv_kernel = config.size_or({"conv_kernel"}, 4);
  mamba.rank = step_rank(config, "time_step_rank", hidden);
  mamba.projection_bias = config.flag("use_bias", false);
  mamba.conv_bias = config.flag("use_conv_bias", true);
  return mamba;
}

DecoderFrame backbone_frame(const Config& config, bool tied) {
  DecoderFrame frame = frame_of(config, tied);
  frame.embedding = "backbone.embeddings";
  frame.layers = "backbone.layers";
  frame.norm = "backbone.norm_f";
  return frame;
}

DecoderSizes sizes_without_heads(const Config& config) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.vocab = config.size({"vocab_size"});
  return sizes;
}

// Mamba, and Falcon Mamba, which normalises step sizes and states without weights.
Model mamba(const Config& config, const Request& request) {
  const DecoderSizes sizes = sizes_without_heads(config);
  Mamba1 mixer = read_mamba1(config, sizes.hidden);
  if (request.model_type == "falcon_mamba") mixer.inner_norm = {NormKind::rms, false, false, true};
  Layer layer;
  layer.mixer_norm = "norm";
  layer.mixer = mixer;
  Model model = decoder_model(config, request, sizes, backbone_frame(config, true),
                              repeat(layer, sizes.layers));
  note_scans(sizes.layers, model);
  return model;
}

Model mamba2(const Config& config, const Request& request) {
  const DecoderSizes sizes = sizes_without_heads(config);
  Mamba2 mixer;
  mixer.heads = config.size_or({"num_heads"}, 128);
  mixer.head_dim = config.size_or({"head_dim"}, 64);
  mixer.groups = config.size_or({"n_groups"}, 8);
  mixer.state = config.size_or({"state_size"}, 128);
  mixer.conv_kernel = config.size_or({"conv_kernel"}, 4);
  mixer.projection_bias = config.flag("use_bias", false);
  mixer.conv_bias = config.flag("use_conv_bias", true);
  Layer layer;
  layer.mixer_norm = "norm";
  layer.mixer = mixer;
  Model model = decoder_model(config, request, sizes, backbone_frame(config, false),
                              repeat(layer, sizes.layers));
  note_scans(sizes.layers, model);
  return model;
}

// Every attn_layer_period-th layer attends, the others are Mamba; every expert_layer_period-th has
// experts.
Model jamba(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  attention.rotary = false;
  Mamba1 mixer;
  mixer.module = "mamba";
  mixer.inner = config.size_or({"mamba_expand"}, 2) * sizes.hidden;
  mixer.state = config.size_or({"mamba_d_state"}, 16);
  mixer.conv_kernel = config.size_or({"mamba_d_conv"}, 4);
  mixer.rank = step_rank(config, "mamba_dt_rank", sizes.hidden);
  mixer.projection_bias = config.flag("mamba_proj_bias", false);
  mixer.conv_bias = config.flag("mamba_conv_bias", true);
  mixer.inner_norm = kRmsNorm;
  Mlp dense = read_dense_mlp(config, "intermediate_size");
  dense.module = "feed_forward";
  const bool experts = config.size_or({"num_experts"}, 16) > 1;
  MixtureOfExperts moe;
  if (experts) moe = read_mixture(config, config.size({"intermediate_size"}));
  moe.module = "feed_forward";
  moe.router = "router";
  moe.expert.module = "feed_forward.experts.*";
  const std::int64_t attends = config.size_or({"attn_layer_period"}, 8);
  const std::int64_t attends_from = config.count_or({"attn_layer_offset"}, 4);
  const std::int64_t sparse = config.size_or({"expert_layer_period"}, 2);
  const std::int64_t sparse_from = config.count_or({"expert_layer_offset"}, 1);
  std::vector<Layer> layers;
  std::int64_t scans = 0;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back();
    layer.feed_norm = "pre_ff_layernorm";
    const bool is_attention = index % attends == attends_from % attends;
    layer.mixer = is_attention ? Mixer(attention) : Mixer(mixer);
    if (!is_attention) ++scans;
    const bool is_sparse = experts && index % sparse == sparse_from % sparse;
    layer.feed = is_sparse ? Feed(moe) : Feed(dense);
  }
  DecoderFrame frame = frame_of(config);
  frame.norm = "model.final_layernorm";
  Model model = decoder_model(config, request, sizes, frame, std::move(layers));
  note_scans(scans, model);
  return model;
}

// Mamba-2 under the names of Bamba, Falcon-H1 and Granite.
Mamba2 read_mamba2(const Config& config) {
  Mamba2 mixer;
  mixer.module = "mamba";
  mixer.heads = config.size_or({"mamba_n_heads"}, 128);
  mixer.head_dim = config.size_or({"mamba_d_head"}, 64);
  mixer.groups = config.size_or({"mamba_n_groups"}, 1);
  mixer.state = config.size_or({"mamba_d_state"}, 256);
  mixer.conv_kernel = config.size_or({"mamba_d_conv"}, 4);
  mixer.projection_bias = config.flag("mamba_proj_bias", false);
  mixer.conv_bias = config.flag("mamba_conv_bias", true);
  return mixer;
}

Mlp feed_forward(const Config& config) {
  Mlp mlp = read_dense_mlp(config, "intermediate_size");
  mlp.module = "feed_forward";
  mlp.up_bias = mlp.down_bias = config.flag("mlp_bias", false);
  return mlp;
}

// Attention and Mamba-2 side by side in each layer.
Model falcon_h1(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  AttentionBesideMamba both{attention_of(sizes), read_mamba2(config)};
  const bool bias = config.flag("attention_bias", false);
  set_bias(both.attention, bias, bias);
  both.mamba.gated_norm = config.flag("mamba_rms_norm", false);
  Layer layer;
  layer.feed_norm = "pre_ff_layernorm";
  layer.mixer = both;
  layer.feed = feed_forward(config);
  DecoderFrame frame = frame_of(config);
  frame.norm = "model.final_layernorm";
  Model model = decoder_model(config, request, sizes, frame, repeat(layer, sizes.layers));
  note_scans(sizes.layers, model);
  return model;
}

Model bamba(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  const std::vector<std::int64_t> attending = config.sizes("attn_layer_indices");
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back();
    layer.feed_norm = "pre_ff_layernorm";
    const bool attends = std::find(attending.begin(), attending.end(), index) != attending.end();
    layer.mixer = attends ? Mixer(attention) : Mixer(read_mamba2(config));
    layer.feed = feed_forward(config);
  }
  const std::int64_t scans = std::count_if(layers.begin(), layers.end(), [](const Layer& layer) {
    return std::holds_alternative<Mamba2>(layer.mixer);
  });
  DecoderFrame frame = frame_of(config);
  frame.norm = "model.final_layernorm";
  Model model = decoder_model(config, request, sizes, frame, std::move(layers));
  note_scans(scans, model);
  return model;
}

// Granite 4: a shared MLP in each layer, beside experts where there are any.
Feed granite_feed(const Config& config) {
  const bool shares = config.count_or({"shared_intermediate_size"}, 0) > 0;
  Mlp shared;
  if (shares) shared = read_dense_mlp(config, "shared_intermediate_size");
  shared.module = "shared_mlp";
  shared.fused = "input_linear";
  shared.down = "output_linear";
  if (shares && config.count_or({"num_local_experts"}, 0) == 0) return shared;
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  moe.module = "block_sparse_moe";
  moe.router = "router.layer";
  moe.expert.module = "block_sparse_moe.experts.*";
  moe.expert.fused = "input_linear";
  moe.expert.down = "output_linear";
  if (shares) moe.shared = shared;
  return moe;
}

// Granite 3's mixtures: attention in each layer.
Model granite_moe(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  Layer layer;
  layer.mixer = attention;
  layer.feed = granite_feed(config);
  return decoder_model(config, request, sizes, frame_of(config), repeat(layer, sizes.layers));
}

Model granite_hybrid(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  attention.rotary = config.text("position_embedding_type") == "rope";
  const std::vector<std::string> types = config.texts("layer_types");
  std::vector<Layer> layers;
  std::int64_t scans = 0;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back();
    const auto at = static_cast<std::size_t>(index);
    const bool attends = at < types.size() && types[at].find("mamba") == std::string::npos &&
                         types[at] != "linear_attention";
    layer.mixer = attends ? Mixer(attention) : Mixer(read_mamba2(config));
    if (!attends) ++scans;
    layer.feed = granite_feed(config);
  }
  Model model = decoder_model(config, request, sizes, frame_of(config), std::move(layers));
  note_scans(scans, model);
  return model;
}

// LFM2's width of the MLP: two thirds of what is stated, rounded up.
std::int64_t lfm2_width(const Config& config) {
  const std::int64_t stated = config.size({"intermediate_size", "block_ff_dim"});
  if (!config.flag("block_auto_adjust_ff_dim", true)) return stated;
  const double factor = config.number("block_ffn_dim_multiplier").value_or(1.0);
  const std::int64_t multiple = config.size_or({"block_multiple_of"}, 256);
  if (!(factor > 0.0 && factor < 1024.0)) {
    config.set_error("block_ffn_dim_multiplier: expected a number from 0 to 1024");
    return 1;
  }
  const std::int64_t two_thirds = 2 * stated / 3;  // rounded down, as the class does
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(two_thirds));
  return (width + multiple - 1) / multiple * multiple;
}

std::vector<bool> lfm2_attention_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<std::int64_t> listed = config.sizes("full_attn_idxs");
  std::vector<bool> attends;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    attends.push_back(at < types.size()
                          ? types[at] == "full_attention"
                          : std::find(listed.begin(), listed.end(), index) != listed.end());
  }
  return attends;
}

Model lfm2(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  attention.out = "out_proj";
  attention.qk_norm = QkNorm::per_head;
  attention.q_norm = "q_layernorm";
  attention.k_norm = "k_layernorm";
  const ShortConvolution conv{"conv", config.size_or({"conv_L_cache"}, 3),
                              config.flag("conv_bias", false)};
  Mlp mlp;
  mlp.module = "feed_forward";
  mlp.gate = "w1";
  mlp.up = "w3";
  mlp.down = "w2";
  mlp.inner = lfm2_width(config);
  std::vector<Layer> layers;
  for (const bool attends : lfm2_attention_layers(config, sizes.layers)) {
    Layer& layer = layers.emplace_back();
    layer.mixer_norm = "operator_norm";
    layer.feed_norm = "ffn_norm";
    layer.mixer = attends ? Mixer(attention) : Mixer(conv);
    layer.feed = mlp;
  }
  DecoderFrame frame = frame_of(config, true);
  frame.norm = "model.embedding_norm";
  return decoder_model(config, request, sizes, frame, std::move(layers));
}

Mamba2 zamba2_mamba(const Config& config, std::int64_t hidden) {
  Mamba2 mixer;
  const std::int64_t inner = config.size_or({"mamba_expand"}, 2) * hidden;
  mixer.heads = config.size_or({"n_mamba_heads"}, 8);
  mixer.head_dim = config.size_or(
      {"mamba_headdim"}, config.divide("mamba_expand", inner, "n_mamba_heads", mixer.heads));
  mixer.module = "mamba";
  mixer.groups = config.size_or({"mamba_ngroups"}, 1);
  mixer.state = config.size_or({"mamba_d_state"}, 64);
  mixer.conv_kernel = config.size_or({"mamba_d_conv"}, 4);
  mixer.projection_bias = config.flag("add_bias_linear", false);
  return mixer;
}

SharedBlock zamba2_shared(const Config& config, const DecoderSizes& sizes) {
  SharedBlock block;
  block.sets = config.size_or({"num_mem_blocks"}, 1);
  block.attention = attention_of(sizes);
  block.attention.module = "shared_transformer.self_attn";
  block.attention.input_width = 2 * sizes.hidden;
  block.attention.head_dim = config.size_or(
      {"attention_head_dim"},
      config.divide("hidden_size", 2 * sizes.hidden, "num_attention_heads", sizes.heads));
  block.attention.rotary = config.flag("use_mem_rope", false);
  const bool bias = config.flag("add_bias_linear", false);
  block.mlp = read_dense_mlp(config, "intermediate_size");
  block.mlp.module = "shared_transformer.feed_forward";
  block.mlp.fused = "gate_up_proj";
  block.mlp.up_bias = block.mlp.down_bias = bias;
  block.mlp_rank = config.size_or({"adapter_rank"}, 128);
  if (config.flag("use_shared_attention_adapter", false)) block.attention_rank = block.mlp_rank;
  return block;
}

// Zamba 2: Mamba-2 in each layer; some begin with attention and an MLP that share their weights.
Model zamba2(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.heads = config.size({"num_attention_heads"});
  sizes.kv_heads = read_kv_heads(config, sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  const std::vector<std::string> kinds = config.texts("layers_block_type");
  if (static_cast<std::int64_t>(kinds.size()) != sizes.layers) {
    config.set_error(
        fmt::format("layers_block_type: found {} layers, expected num_hidden_layers {}",
                    kinds.size(), sizes.layers));
  }
  Layer plain;
  plain.mixer = zamba2_mamba(config, sizes.hidden);
  Layer hybrid = plain;
  hybrid.shared = zamba2_shared(config, sizes);
  hybrid.mixer_norm = "mamba_decoder.input_layernorm";
  std::get<Mamba2>(hybrid.mixer).module = "mamba_decoder.mamba";
  std::vector<Layer> layers;
  for (const std::string& kind : kinds) layers.push_back(kind == "hybrid" ? hybrid : plain);
  DecoderFrame frame = frame_of(config, true);
  frame.norm = "model.final_layernorm";
  Model model = decoder_model(config, request, sizes, frame, std::move(layers));
  note_scans(sizes.layers, model);
  return model;
}

}  // namespace

FamilyList state_space_families() {
  return {{"mamba", mamba},
          {"falcon_mamba", mamba},
          {"mamba2", mamba2},
          {"jamba", jamba},
          {"falcon_h1", falcon_h1},
          {"bamba", bamba},
          {"granitemoehybrid", granite_hybrid},
          {"granitemoe", granite_moe},
          {"granitemoeshared", granite_moe},
          {"lfm2", lfm2},
          {"zamba2", zamba2}};
}

}  // namespace rooftile::hf
