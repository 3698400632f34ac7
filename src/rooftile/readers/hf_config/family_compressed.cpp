// DeepSeek V4: attention over a window and compressed entries, streams in place of a residual, and
// mixtures of experts in all layers.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/mixture.h"

namespace rooftile::hf {
namespace {

constexpr std::int64_t kMaxStreams = 64;

// Tokens that an entry stands for in the two kinds of layers that have entries; Transformers'
// defaults.
struct Rates {
  std::int64_t sparse = 4, heavy = 128;
};

Rates read_rates(const Config& config) {
  Rates rates;
  rates.sparse = config.size_or({"compress_rate_csa"}, rates.sparse);
  rates.heavy = config.size_or({"compress_rate_hca"}, rates.heavy);
  if (const auto stated = config.child("compress_rates")) {
    rates.sparse = stated->size_or({"compressed_sparse_attention"}, rates.sparse);
    rates.heavy = stated->size_or({"heavily_compressed_attention"}, rates.heavy);
  }
  return rates;
}

// Tokens of an entry in each layer, 0 for the window alone: layer_types, else compress_ratios, else
// two heavy layers and then both kinds in turn.
std::vector<std::int64_t> tokens_of_entries(const Config& config, std::int64_t layers,
                                            const Rates& rates) {
  const std::vector<std::string> types = config.texts("layer_types");
  const std::vector<std::int64_t> ratios = config.sizes("compress_ratios");
  std::vector<std::int64_t> tokens;
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    if (at < types.size()) {
      const bool sparse = types[at] == "compressed_sparse_attention";
      tokens.push_back(sparse ? rates.sparse : types[at] == "sliding_attention" ? 0 : rates.heavy);
    } else if (at < ratios.size()) {
      tokens.push_back(ratios[at] <= 1 ? 0 : ratios[at]);
    } else {
      tokens.push_back(index > 1 && index % 2 == 1 ? rates.sparse : rates.heavy);
    }
    if (tokens.back() == 0 || tokens.back() == rates.sparse || tokens.back() == rates.heavy) {
      continue;
    }
    config.set_error(fmt::format("compress_ratios: found {}, expected 0, {} or {}", tokens.back(),
                                 rates.sparse, rates.heavy));
  }
  return tokens;
}

CompressedAttention read_attention(const Config& config) {
  CompressedAttention attention;
  attention.heads = config.size({"num_attention_heads"});
  attention.head_dim = config.size({"head_dim"});
  const double share = config.number("partial_rotary_factor").value_or(0.125);
  attention.rope_dim =
      config.size_or({"qk_rope_head_dim"},
                     std::max<std::int64_t>(
                         1, static_cast<std::int64_t>(std::clamp(share, 0.0, 1.0) *
                                                      static_cast<double>(attention.head_dim))));
  attention.q_rank = config.size({"q_lora_rank"});
  attention.groups = config.size({"o_groups"});
  attention.out_rank = config.size({"o_lora_rank"});
  attention.window = config.size({"sliding_window"});
  config.divide("num_attention_heads", attention.heads, "o_groups", attention.groups);
  return attention;
}

std::vector<Layer> deepseek_v4_layers(const Config& config, std::int64_t count) {
  CompressedAttention attention = read_attention(config);
  const Indexer indexer{config.size({"index_n_heads"}), config.size({"index_head_dim"}),
                        config.size({"index_topk"})};
  const Rates rates = read_rates(config);
  MixtureOfExperts moe = read_shared_mixture(config);
  moe.sigmoid_scores = true;  // sqrt(softplus(x)): one pass over the scores as well
  moe.router_extra_parameters = 0;
  Layer layer;
  layer.hyper_streams = config.size({"hc_mult"});
  if (layer.hyper_streams > kMaxStreams) {
    config.set_error(fmt::format("hc_mult: found {}, expected at most {} streams",
                                 layer.hyper_streams, kMaxStreams));
    layer.hyper_streams = 1;
  }
  layer.feed = moe;
  std::vector<Layer> layers;
  for (const std::int64_t tokens : tokens_of_entries(config, count, rates)) {
    attention.tokens_of_entry = tokens;
    attention.indexer =
        tokens > 0 && tokens == rates.sparse ? std::optional(indexer) : std::nullopt;
    layer.mixer = attention;
    layers.push_back(layer);
  }
  return layers;
}

// The streams after the embedding, and their mix before the last norm.
DecoderFrame frame_of_streams(const Config& config, std::int64_t hidden, std::int64_t streams) {
  DecoderFrame frame = frame_of(config);
  const std::int64_t width = hidden * streams;
  frame.after_embedding = {Pointwise{"model.expand_streams", "copy", width, 1}};
  frame.after_layers = {
      Projection{.path = "model.hc_head.hc_fn", .in = width, .out = streams, .branch = true},
      Parameters{streams + 1},
      Pointwise{"model.hc_head.collapse", "weighted_sum", hidden, streams}};
  return frame;
}

Model deepseek_v4(const Config& config, const Request& request) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.vocab = config.size({"vocab_size"});
  for (const char* key : {"candidate_topk_blocks", "kv_source_layers"}) {
    if (config.has(key)) {
      config.set_error(
          fmt::format("{}: attention that shares keys between layers is not modelled", key));
    }
  }
  std::vector<Layer> layers = deepseek_v4_layers(config, sizes.layers);
  const std::int64_t streams = layers.front().hyper_streams;
  const auto sparse = std::count_if(layers.begin(), layers.end(), [](const Layer& layer) {
    return std::get<CompressedAttention>(layer.mixer).indexer.has_value();
  });
  Model model = decoder_model(config, request, sizes,
                              frame_of_streams(config, sizes.hidden, streams), std::move(layers));
  model.notes.push_back(
      "attention is counted as a fused kernel over the keys that each query sees, the window and "
      "the compressed entries; Transformers computes the scores of all keys");
  model.notes.push_back(
      "hyper-connections are counted as fused kernels that read and write the streams once; the "
      "iterations on their weights are left out");
  if (sparse > 0) model.skipped["top-k selection of sparse attention"] += sparse;
  return model;
}

}  // namespace

FamilyList compressed_families() { return {{"deepseek_v4", deepseek_v4}}; }

}  // namespace rooftile::hf
