// Decoders that mix attention with linear attention (Qwen3-Next, Qwen3.5) or Mamba (Nemotron-H).
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

DeltaNet read_delta_net(const Config& config, bool split) {
  DeltaNet net;
  net.key_heads = config.size({"linear_num_key_heads"});
  net.value_heads = config.size({"linear_num_value_heads"});
  config.divide("linear_num_value_heads", net.value_heads, "linear_num_key_heads", net.key_heads);
  net.key_dim = config.size({"linear_key_head_dim"});
  net.value_dim = config.size({"linear_value_head_dim"});
  net.conv_kernel = config.size_or({"linear_conv_kernel_dim"}, 4);
  net.split_projections = split;
  return net;
}

std::vector<bool> full_attention_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  const std::int64_t interval = config.size_or({"full_attention_interval"}, 4);
  std::vector<bool> full;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    full.push_back(at < types.size() ? types[at] == "full_attention" : (index + 1) % interval == 0);
  }
  return full;
}

Model qwen_hybrid(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  SelfAttention attention = attention_of(sizes);
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  attention.qk_norm = QkNorm::per_head;
  attention.output_gate = config.flag("attn_output_gate", true);
  const DeltaNet net = read_delta_net(config, request.model_type != "qwen3_next");
  const bool sparse = config.count_or({"num_experts"}, 0) > 0;
  const Feed feed =
      sparse ? Feed(read_qwen_mixture(config)) : Feed(read_dense_mlp(config, "intermediate_size"));
  std::vector<Layer> layers;
  const std::vector<bool> full = full_attention_layers(config, sizes.layers);
  for (const bool is_full : full) {
    Layer& layer = layers.emplace_back();
    layer.mixer = is_full ? Mixer(attention) : Mixer(net);
    layer.feed = feed;
  }
  Model model = decoder_model(config, request, sizes, frame_of(config), std::move(layers));
  if (request.decode) return model;
  model.skipped["gated delta rule scan"] += std::count(full.begin(), full.end(), false);
  model.notes.push_back(
      "linear attention: projections and short convolutions are exact; of the gated delta rule "
      "only the memory traffic of its inputs and outputs is counted");
  return model;
}

// One block for each layer: hybrid_override_pattern "M-*E" or layers_block_type.
std::vector<std::string> block_kinds(const Config& config) {
  std::vector<std::string> kinds = config.texts("layers_block_type");
  for (std::string& kind : kinds) {  // the names of newer versions
    if (kind == "linear_attention") kind = "mamba";
    if (kind == "full_attention") kind = "attention";
  }
  if (!kinds.empty()) return kinds;
  for (const char c : config.text("hybrid_override_pattern")) {
    if (c == 'M') kinds.emplace_back("mamba");
    if (c == '-') kinds.emplace_back("mlp");
    if (c == '*') kinds.emplace_back("attention");
    if (c == 'E') kinds.emplace_back("moe");
  }
  return kinds;
}

Mamba2 read_mamba(const Config& config) {
  Mamba2 mamba;
  mamba.heads = config.size({"mamba_num_heads"});
  mamba.head_dim = config.size({"mamba_head_dim"});
  mamba.groups = config.size({"n_groups"});
  mamba.state = config.size({"ssm_state_size"});
  mamba.conv_kernel = config.size({"conv_kernel"});
  mamba.projection_bias = config.flag("mamba_proj_bias", config.flag("use_bias", false));
  mamba.conv_bias = config.flag("use_conv_bias", true);
  return mamba;
}

SelfAttention nemotron_attention(const Config& config) {
  SelfAttention attention;
  attention.module = "mixer";
  attention.heads = config.size({"num_attention_heads"});
  attention.kv_heads = read_kv_heads(config, attention.heads);
  attention.head_dim = config.size({"attention_head_dim", "head_dim"});
  attention.rotary = false;
  const bool bias = config.flag("attention_bias", false);
  set_bias(attention, bias, bias);
  return attention;
}

MixtureOfExperts nemotron_experts(const Config& config) {
  MixtureOfExperts moe = read_mixture(config, config.size({"moe_intermediate_size"}));
  moe.module = "mixer";
  moe.sigmoid_scores = true;
  moe.expert.module = "mixer.experts.*";
  moe.expert.gated = false;
  moe.expert.activation = read_activation(config, {"mlp_hidden_act"}, "relu2");
  moe.latent = config.count_or({"moe_latent_size"}, 0);
  const std::int64_t shared = config.count_or({"n_shared_experts"}, 0);
  add_shared_experts(moe, shared * config.count_or({"moe_shared_expert_intermediate_size"}, 0));
  return moe;
}

Mlp nemotron_mlp(const Config& config) {
  const bool bias = config.flag("mlp_bias", false);
  Mlp mlp = plain_mlp("up_proj", "down_proj", config.size({"intermediate_size"}), bias,
                      read_activation(config, {"mlp_hidden_act"}, "relu2"));
  mlp.module = "mixer";
  return mlp;
}

std::optional<Layer> nemotron_layer(const Config& config, const std::string& kind) {
  Layer layer;
  layer.mixer_norm = layer.feed_norm = "norm";
  if (kind == "mamba") {
    layer.mixer = read_mamba(config);
  } else if (kind == "attention") {
    layer.mixer = nemotron_attention(config);
  } else if (kind == "mlp") {
    layer.feed = nemotron_mlp(config);
  } else if (kind == "moe") {
    layer.feed = nemotron_experts(config);
  } else {
    return std::nullopt;
  }
  return layer;
}

// Nemotron-H: each layer is one block, Mamba-2, attention, MLP or experts.
Model nemotron_h(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.vocab = config.size({"vocab_size"});
  const std::vector<std::string> kinds = block_kinds(config);
  sizes.layers = static_cast<std::int64_t>(kinds.size());
  const std::int64_t stated = config.size_or({"num_hidden_layers"}, sizes.layers);
  if (kinds.empty()) {
    config.set_error("\"hybrid_override_pattern\" and \"layers_block_type\" are missing");
  } else if (stated != sizes.layers || sizes.layers > 1024) {
    config.set_error(fmt::format("the layer pattern has {} layers, num_hidden_layers says {}",
                                 sizes.layers, stated));
  }
  std::vector<Layer> layers;
  for (const std::string& kind : kinds) {
    if (config.error()) break;
    auto layer = nemotron_layer(config, kind);
    if (!layer)
      config.set_error("layers_block_type: a block is none of mamba, attention, mlp, moe");
    if (layer) layers.push_back(std::move(*layer));
  }
  DecoderFrame frame = frame_of(config);
  frame.embedding = "backbone.embeddings";
  frame.layers = "backbone.layers";
  frame.norm = "backbone.norm_f";
  Model model = decoder_model(config, request, sizes, frame, std::move(layers));
  if (request.decode) return model;
  model.skipped["selective state space scan"] += std::count(kinds.begin(), kinds.end(), "mamba");
  model.notes.push_back(
      "Mamba-2: projections and short convolutions are exact; of the scan only the memory traffic "
      "of its inputs and outputs is counted");
  return model;
}

// Layers that attend: layer_types, else attn_type_list with 1 for softmax attention.
std::vector<bool> softmax_layers(const Config& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<std::int64_t> listed = config.sizes("attn_type_list");
  std::vector<bool> softmax;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    if (at < types.size()) {
      softmax.push_back(types[at] == "full_attention");
    } else {
      softmax.push_back(at < listed.size() ? listed[at] == 1 : index % 2 == 0);
    }
  }
  return softmax;
}

// MiniMax-01 and M1: lightning attention in most layers, experts in all.
Model minimax_01(const Config& config, const Request& request) {
  const DecoderSizes sizes = read_decoder_sizes(config);
  const LightningAttention lightning{"self_attn", sizes.heads, sizes.head_dim};
  MixtureOfExperts moe = read_mixture(config, config.size({"intermediate_size"}));
  moe.module = "block_sparse_moe";
  moe.expert = {.module = "block_sparse_moe.experts.*",
                .gate = "w1",
                .up = "w3",
                .down = "w2",
                .inner = moe.expert.inner,
                .activation = moe.expert.activation};
  if (config.count_or({"shared_intermediate_size"}, 0) > 0) {
    config.set_error("shared_intermediate_size: expected 0, shared experts are not modelled");
  }
  std::vector<Layer> layers;
  const std::vector<bool> softmax = softmax_layers(config, sizes.layers);
  for (const bool attends : softmax) {
    Layer& layer = layers.emplace_back();
    layer.mixer = attends ? Mixer(attention_of(sizes)) : Mixer(lightning);
    layer.feed = moe;
  }
  Model model = decoder_model(config, request, sizes, frame_of(config), std::move(layers));
  model.skipped["lightning attention"] += std::count(softmax.begin(), softmax.end(), false);
  model.notes.push_back(
      "lightning attention: projections are exact; of the attention only the memory traffic of its "
      "inputs and outputs is counted");
  return model;
}

}  // namespace

FamilyList hybrid_families() {
  return {{"qwen3_next", qwen_hybrid},       {"qwen3_5_text", qwen_hybrid},
          {"qwen3_5_moe_text", qwen_hybrid}, {"nemotron_h", nemotron_h},
          {"minimax", minimax_01},           {"minimax_text_01", minimax_01},
          {"minimax_m1", minimax_01}};
}

}  // namespace rooftile::hf
