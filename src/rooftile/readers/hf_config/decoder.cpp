#include "rooftile/readers/hf_config/decoder.h"

#include <fmt/format.h>

#include <algorithm>

namespace rooftile::hf {
namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kDefaultLength = 2048;
// A prompt and answer of middle length.
constexpr std::int64_t kDefaultPast = 1024;

}  // namespace

std::int64_t read_layers(const Config& config, Keys keys) {
  const std::int64_t layers = config.size(keys);
  if (layers <= kMaxLayers) return layers;
  config.set_error(
      fmt::format("{}: found {}, expected at most {} layers", *keys.begin(), layers, kMaxLayers));
  return 1;
}

std::int64_t read_head_dim(const Config& config, std::int64_t hidden, std::int64_t heads) {
  if (config.has("head_dim")) return config.size({"head_dim"});
  return config.divide("hidden_size", hidden, "num_attention_heads", heads);
}

std::int64_t read_kv_heads(const Config& config, std::int64_t heads) {
  const std::int64_t kv_heads = config.size_or({"num_key_value_heads"}, heads);
  config.divide("num_attention_heads", heads, "num_key_value_heads", kv_heads);
  return kv_heads;
}

DecoderSizes read_decoder_sizes(const Config& config) {
  DecoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"});
  sizes.layers = read_layers(config, {"num_hidden_layers"});
  sizes.heads = config.size({"num_attention_heads"});
  sizes.kv_heads = read_kv_heads(config, sizes.heads);
  sizes.head_dim = read_head_dim(config, sizes.hidden, sizes.heads);
  sizes.vocab = config.size({"vocab_size"});
  return sizes;
}

SelfAttention attention_of(const DecoderSizes& sizes) {
  SelfAttention attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.kv_heads;
  attention.head_dim = sizes.head_dim;
  return attention;
}

namespace {

// Where the model states no limit, none is named and none is exceeded.
using Limit = std::optional<std::int64_t>;

std::string allowed_text(const Limit& longest) {
  return longest ? fmt::format(" (the model allows {})", *longest) : "";
}

std::int64_t choose_past(const Request& request, const Limit& longest, Model& model) {
  if (request.past) {
    if (longest && *request.past >= *longest) {
      model.notes.push_back(
          fmt::format("{} positions in the cache and a new one are more than the "
                      "model's {}",
                      *request.past, *longest));
    }
    return *request.past;
  }
  const std::int64_t past =
      longest ? std::clamp<std::int64_t>(*longest - 1, 1, kDefaultPast) : kDefaultPast;
  model.notes.push_back(fmt::format("{} positions in the cache assumed{}; set them with --past",
                                    past, allowed_text(longest)));
  return past;
}

std::int64_t choose_prompt(const Request& request, const Limit& longest, Model& model) {
  if (request.seq) {
    if (longest && *request.seq > *longest) {
      model.notes.push_back(
          fmt::format("sequence length {} is longer than the model's {}", *request.seq, *longest));
    }
    return *request.seq;
  }
  const std::int64_t length = std::min(longest.value_or(kDefaultLength), kDefaultLength);
  model.notes.push_back(fmt::format("sequence length {} assumed{}; set it with --seq", length,
                                    allowed_text(longest)));
  return length;
}

}  // namespace

std::int64_t choose_length(const Request& request, std::optional<std::int64_t> longest,
                           Model& model) {
  const std::int64_t positions = request.decode ? choose_past(request, longest, model)
                                                : choose_prompt(request, longest, model);
  model.sequence = positions;
  return positions + (request.decode ? 1 : 0);
}

bool make_decode_step(Model& model) {
  bool found = false;
  for (Tower& tower : model.towers) {
    tower.runs = tower.generates;
    if (!tower.generates) continue;
    tower.past = tower.length - 1;
    tower.length = 1;
    found = true;
  }
  return found;
}

std::int64_t read_labels(const Config& config) {
  const std::int64_t listed = config.length("id2label");
  if (listed > 0) return listed;
  return config.size_or({"num_labels", "_num_labels"}, 2);
}

std::string read_activation(const Config& config, Keys keys, std::string_view fallback) {
  std::string name(fallback);
  for (const std::string_view key : keys) {
    if (config.has(key)) {
      name = config.text(key);
      break;
    }
  }
  if (name.starts_with("gelu")) return "gelu";
  if (name == "swish") return "silu";
  // Names end up in operations: only what looks like one.
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  const bool usable =
      !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), is_word);
  return usable ? name : "activation";
}

Mlp plain_mlp(std::string up, std::string down, std::int64_t inner, bool bias,
              std::string activation) {
  Mlp mlp;
  mlp.gated = false;
  mlp.up = std::move(up);
  mlp.down = std::move(down);
  mlp.inner = inner;
  mlp.up_bias = mlp.down_bias = bias;
  mlp.activation = std::move(activation);
  return mlp;
}

void set_bias(SelfAttention& attention, bool qkv, bool out) {
  attention.q_bias = attention.k_bias = attention.v_bias = qkv;
  attention.out_bias = out;
}

DecoderFrame frame_of(const Config& config, bool tied) {
  DecoderFrame frame;
  frame.tied = config.flag("tie_word_embeddings", tied);
  return frame;
}

std::vector<Layer> repeat(const Layer& layer, std::int64_t layers) {
  return std::vector<Layer>(static_cast<std::size_t>(layers), layer);
}

void note_multi_token_prediction(const Config& config, Model& model) {
  const std::int64_t modules = std::max({config.count_or({"num_nextn_predict_layers"}, 0),
                                         config.count_or({"num_mtp_modules"}, 0),
                                         config.count_or({"mtp_num_hidden_layers"}, 0)});
  if (modules > 0) model.skipped["multi-token prediction module"] += modules;
}

void add_decoder_head(const Config& config, const Request& request, const DecoderSizes& sizes,
                      const DecoderFrame& frame, std::vector<Part>& parts) {
  if (request.architecture_has("SequenceClassification")) {
    parts.push_back(Projection{.path = "score", .in = sizes.hidden, .out = read_labels(config)});
    return;
  }
  if (request.architecture_has("TokenClassification")) {
    parts.push_back(
        Projection{.path = "score", .in = sizes.hidden, .out = read_labels(config), .bias = true});
    return;
  }
  if (request.architecture.ends_with("Model") && !request.architecture_has("LMHeadModel")) return;
  // The loss takes the logits of every position; what generates, as Transformers' generate() and
  // all engines do, needs those of the last one.
  parts.push_back(Projection{.path = frame.head,
                             .in = sizes.hidden,
                             .out = sizes.vocab,
                             .bias = frame.head_bias,
                             .tied = frame.tied,
                             .rows = request.training ? Rows::tokens : Rows::sequences});
}

namespace {

void note_blocks(const Request& request, const std::vector<Layer>& layers, Model& model) {
  bool experts = false, separate_scores = false;
  for (const Layer& layer : layers) {
    experts = experts || std::holds_alternative<MixtureOfExperts>(layer.feed);
    const auto* attention = std::get_if<SelfAttention>(&layer.mixer);
    separate_scores = separate_scores || (attention != nullptr && !attention->sdpa);
  }
  if (experts) {
    model.notes.push_back(
        "routing is assumed balanced: each active expert gets the same number of tokens, and few "
        "tokens reach only some experts, as by chance; moving tokens to experts is not counted");
  }
  if (separate_scores && !request.decode) {
    model.notes.push_back(
        "Transformers has no fused attention for this architecture: scores are written to memory");
  }
}

// Layers that keep a state of fixed size read any length.
bool has_any_attention(const std::vector<Layer>& layers) {
  const auto is_recurrent = [](const Layer& layer) {
    const bool of_state = std::holds_alternative<Mamba1>(layer.mixer) ||
                          std::holds_alternative<Mamba2>(layer.mixer) ||
                          std::holds_alternative<DeltaNet>(layer.mixer) ||
                          std::holds_alternative<ShortConvolution>(layer.mixer) ||
                          std::holds_alternative<LightningAttention>(layer.mixer) ||
                          std::holds_alternative<std::monostate>(layer.mixer);
    return of_state && !layer.cross && !layer.shared;
  };
  return !std::all_of(layers.begin(), layers.end(), is_recurrent);
}

// The positions that the config allows, where it states them.
std::optional<std::int64_t> read_longest(const Config& config, const std::vector<Layer>& layers) {
  if (!has_any_attention(layers)) return std::nullopt;
  const std::int64_t stated = config.count_or({"max_position_embeddings", "n_positions",
                                               "max_sequence_length", "seq_length", "max_seq_len"},
                                              0);
  return stated > 0 ? std::optional(stated) : std::nullopt;
}

}  // namespace

Model decoder_model(const Config& config, const Request& request, const DecoderSizes& sizes,
                    const DecoderFrame& frame, std::vector<Layer> layers) {
  Model model;
  note_blocks(request, layers, model);
  Tower tower;
  tower.length = choose_length(request, read_longest(config, layers), model);
  tower.generates = !request.architecture_has("Classification");
  const std::int64_t width = frame.embedding_width > 0 ? frame.embedding_width : sizes.hidden;
  tower.parts.push_back(Table{frame.embedding, sizes.vocab, width});
  for (const Part& part : frame.after_embedding) tower.parts.push_back(part);
  tower.parts.push_back(Stack{frame.layers, sizes.hidden, std::move(layers)});
  for (const Part& part : frame.after_layers) tower.parts.push_back(part);
  tower.parts.push_back(NormPart{frame.norm, frame.final_norm, sizes.hidden});
  for (const Part& part : frame.before_head) tower.parts.push_back(part);
  DecoderSizes head = sizes;
  head.hidden = width;
  add_decoder_head(config, request, head, frame, tower.parts);
  model.towers.push_back(std::move(tower));
  note_multi_token_prediction(config, model);
  return model;
}

}  // namespace rooftile::hf
