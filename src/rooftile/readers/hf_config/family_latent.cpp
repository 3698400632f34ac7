// Multi-head latent attention with mixtures of experts: DeepSeek V2 and V3, Kimi K2, GLM 5.
#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

LatentAttention read_latent(const Config& config) {
  LatentAttention attention;
  attention.heads = config.size({"num_attention_heads"});
  attention.q_rank = config.count_or({"q_lora_rank"}, 0);
  attention.kv_rank = config.size({"kv_lora_rank"});
  attention.nope_dim = config.size({"qk_nope_head_dim"});
  attention.rope_dim = config.size({"qk_rope_head_dim"});
  attention.value_dim = config.size({"v_head_dim"});
  attention.bias = config.flag("attention_bias", false);
  return attention;
}

// Layers that run an indexer of their own: indexer_types "full", the others reuse its choice.
std::vector<bool> indexing_layers(const Config& config, std::int64_t layers) {
  std::vector<bool> full(static_cast<std::size_t>(layers), true);
  const std::vector<std::string> types = config.texts("indexer_types");
  for (std::size_t index = 0; index < full.size() && index < types.size(); ++index) {
    full[index] = types[index] != "shared";
  }
  return full;
}

std::optional<Indexer> read_indexer(const Config& config) {
  if (!config.has("index_topk")) return std::nullopt;
  return Indexer{config.size({"index_n_heads"}), config.size({"index_head_dim"}),
                 config.size({"index_topk"})};
}

std::vector<Layer> latent_layers(const Config& config, std::int64_t count) {
  LatentAttention attention = read_latent(config);
  const std::optional<Indexer> indexer = read_indexer(config);
  if (indexer && attention.q_rank == 0) config.size({"q_lora_rank"});
  const MixtureOfExperts moe = read_shared_mixture(config);
  const Mlp dense = read_dense_mlp(config, "intermediate_size");
  const std::vector<bool> sparse = sparse_layers(config, count);
  const std::vector<bool> indexing = indexing_layers(config, count);
  std::vector<Layer> layers;
  for (std::size_t index = 0; index < sparse.size(); ++index) {
    attention.indexer = indexer;
    if (indexer) attention.indexer->scores = indexing[index];
    Layer& layer = layers.emplace_back();
    layer.mixer = attention;
    layer.feed = sparse[index] ? Feed(moe) : Feed(dense);
  }
  return layers;
}

Model latent(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.vocab = config.size({"vocab_size"});
  Model model =
      decoder_model(config, request, sizes, frame_of(config), latent_layers(config, sizes.layers));
  model.notes.push_back(
      request.decode
          ? "latent attention is counted in absorbed form: all heads read the latent cache, and "
            "kv_b_proj is applied to queries and outputs, in the activations' precision"
          : "latent attention is counted as in prefill: keys and values are expanded, not "
            "absorbed");
  if (config.has("index_topk")) {
    model.notes.push_back(
        "sparse attention is counted as a window of index_topk keys; index scores are counted for "
        "all keys, the choice of the best is left out");
    model.skipped["top-k selection of sparse attention"] += sizes.layers;
  }
  return model;
}

// V2's scores are softmax probabilities without a correction bias.
Model deepseek_v2(const Config& config, const Request& request) {
  Model model = latent(config, request);
  for (Tower& tower : model.towers) {
    for (Part& part : tower.parts) {
      auto* stack = std::get_if<Stack>(&part);
      if (stack == nullptr) continue;
      for (Layer& layer : stack->layers) {
        if (auto* moe = std::get_if<MixtureOfExperts>(&layer.feed)) {
          moe->sigmoid_scores = false;
          moe->router_extra_parameters = 0;
        }
      }
    }
  }
  return model;
}

}  // namespace

FamilyList latent_families() {
  return {{"deepseek_v2", deepseek_v2}, {"mistral4", deepseek_v2}, {"deepseek_v3", latent},
          {"deepseek_v32", latent},     {"kimi_k2", latent},       {"glm_moe_dsa", latent},
          {"glm4_moe_lite", latent}};
}

}  // namespace rooftile::hf
