// Encoder-decoders: T5, BART, Whisper. The decoder runs on a whole target sequence (training or
// scoring), with cross-attention to the encoder's output.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

SelfAttention t5_attention(std::int64_t heads, std::int64_t head_dim, const std::string& module,
                           bool causal) {
  SelfAttention attention;
  attention.module = module;
  attention.q = "q";
  attention.k = "k";
  attention.v = "v";
  attention.out = "o";
  attention.heads = attention.kv_heads = heads;
  attention.head_dim = head_dim;
  attention.causal = causal;
  attention.rotary = false;
  attention.sdpa = false;
  return attention;
}

Mlp t5_mlp(const Config& config, const std::string& module) {
  const std::string kind = config.text("feed_forward_proj", "relu");
  Mlp mlp;
  mlp.module = module + ".DenseReluDense";
  mlp.inner = config.size({"d_ff"});
  mlp.gated = kind.starts_with("gated-");
  mlp.gate = "wi_0";
  mlp.up = mlp.gated ? "wi_1" : "wi";
  mlp.down = "wo";
  mlp.activation = kind.find("gelu") != std::string::npos   ? "gelu"
                   : kind.find("silu") != std::string::npos ? "silu"
                                                            : "relu";
  return mlp;
}

struct T5Sizes {
  std::int64_t hidden = 0, heads = 0, head_dim = 0, vocab = 0, buckets = 0;
  bool table_in_each_layer = false;
};

Layer t5_layer(const Config& config, const T5Sizes& sizes, bool decoder) {
  Layer layer;
  layer.mixer_norm = "layer.0.layer_norm";
  layer.mixer = t5_attention(sizes.heads, sizes.head_dim, "layer.0.SelfAttention", decoder);
  if (decoder) {
    layer.cross = t5_attention(sizes.heads, sizes.head_dim, "layer.1.EncDecAttention", false);
    layer.cross_norm = "layer.1.layer_norm";
  }
  const std::string last = decoder ? "layer.2" : "layer.1";
  layer.feed_norm = last + ".layer_norm";
  layer.feed = t5_mlp(config, last);
  return layer;
}

// Switch Transformers: one expert for each token in num_sparse layers, evenly apart.
void add_switch_experts(const Config& config, bool decoder, std::vector<Layer>& layers) {
  const auto count = static_cast<std::int64_t>(layers.size());
  const std::int64_t sparse =
      config.count_or({decoder ? "num_sparse_decoder_layers" : "num_sparse_encoder_layers"}, 3);
  const std::int64_t step = sparse > 0 ? std::max<std::int64_t>(1, count / sparse) : count;
  const std::string module = decoder ? "layer.2.mlp" : "layer.1.mlp";
  for (std::int64_t index = 0; index < count; ++index) {
    Feed& feed = layers[static_cast<std::size_t>(index)].feed;
    Mlp& dense = std::get<Mlp>(feed);
    dense.module = module;
    if (sparse == 0 || (index % step != 1 && step != 1)) continue;
    MixtureOfExperts moe;
    moe.module = module;
    moe.router = "router.classifier";
    moe.router_bias = config.flag("router_bias", false);
    moe.experts = config.size_or({"num_experts"}, 8);
    moe.top_k = 1;
    moe.expert = dense;
    moe.expert.module = module + ".experts.*";
    feed = moe;
  }
}

void add_t5_stack(const Config& config, const T5Sizes& sizes, std::int64_t layers, bool decoder,
                  Tower& tower) {
  const std::string path = decoder ? "decoder" : "encoder";
  std::vector<Layer> blocks = repeat(t5_layer(config, sizes, decoder), layers);
  if (config.text("model_type") == "switch_transformers") {
    add_switch_experts(config, decoder, blocks);
  }
  tower.parts.push_back(Stack{path + ".block", sizes.hidden, std::move(blocks)});
  // The first layer's relative position table serves the whole stack, but for UMT5.
  tower.parts.push_back(
      Parameters{sizes.buckets * sizes.heads * (sizes.table_in_each_layer ? layers : 1)});
  tower.parts.push_back(NormPart{path + ".final_layer_norm", kRmsNorm, sizes.hidden});
}

// An embedding that shares its table with one counted before.
Part shared_table(std::string path, std::int64_t vocab, std::int64_t width) {
  Table table{std::move(path), vocab, width};
  table.tied = true;
  return table;
}

Model t5(const Config& config, const Request& request) {
  Model model;
  const T5Sizes sizes{config.size({"d_model"}),
                      config.size({"num_heads"}),
                      config.size({"d_kv"}),
                      config.size({"vocab_size"}),
                      config.size_or({"relative_attention_num_buckets"}, 32),
                      request.model_type == "umt5"};
  const std::int64_t layers = read_layers(config, {"num_layers"});
  const std::int64_t decoder_layers =
      config.has("num_decoder_layers") ? read_layers(config, {"num_decoder_layers"}) : layers;
  Tower encoder;
  encoder.length = choose_length(request, config.size_or({"n_positions"}, 512), model);
  encoder.parts.push_back(Table{"shared", sizes.vocab, sizes.hidden});
  add_t5_stack(config, sizes, layers, false, encoder);
  Tower decoder;
  decoder.length = decoder.memory_length = encoder.length;
  decoder.generates = true;
  model.towers.push_back(std::move(encoder));
  if (request.architecture_has("EncoderModel")) return model;
  decoder.parts.push_back(shared_table("decoder.embed_tokens", sizes.vocab, sizes.hidden));
  add_t5_stack(config, sizes, decoder_layers, true, decoder);
  if (!request.architecture.ends_with("Model")) {
    const bool tied = config.flag("tie_word_embeddings", request.model_type != "mt5");
    decoder.parts.push_back(
        Projection{.path = "lm_head", .in = sizes.hidden, .out = sizes.vocab, .tied = tied});
  }
  model.towers.push_back(std::move(decoder));
  model.notes.push_back("encoder and decoder are counted at the same length");
  if (request.model_type == "switch_transformers") {
    model.notes.push_back(
        "routing is assumed balanced: each active expert gets the same number of tokens; moving "
        "tokens to experts is not counted");
  }
  return model;
}

SelfAttention bart_attention(const Config& config, std::int64_t hidden, const char* heads_key,
                             const std::string& module, bool causal) {
  SelfAttention attention;
  attention.module = module;
  attention.out = "out_proj";
  attention.heads = attention.kv_heads = config.size({heads_key});
  attention.head_dim = config.divide("d_model", hidden, heads_key, attention.heads);
  set_bias(attention, true, true);
  attention.causal = causal;
  attention.rotary = false;
  return attention;
}

Layer bart_layer(const Config& config, std::int64_t hidden, bool decoder, Placement placement) {
  const char* heads_key = decoder ? "decoder_attention_heads" : "encoder_attention_heads";
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = placement;
  layer.mixer_norm = "self_attn_layer_norm";
  layer.feed_norm = "final_layer_norm";
  layer.mixer = bart_attention(config, hidden, heads_key, "self_attn", decoder);
  if (decoder) layer.cross = bart_attention(config, hidden, heads_key, "encoder_attn", false);
  layer.feed =
      plain_mlp("fc1", "fc2", config.size({decoder ? "decoder_ffn_dim" : "encoder_ffn_dim"}), true,
                read_activation(config, {"activation_function"}, "gelu"));
  std::get<Mlp>(layer.feed).module = "mlp";
  return layer;
}

// Where the relatives of BART differ: norms before the blocks, a norm behind the embedding, and
// positions that are a table (two rows longer in BART's), or computed (M2M-100).
struct BartKind {
  bool pre = false, embedding_norm = false, position_table = true;
  std::int64_t more_positions = 0;
};

BartKind bart_kind(std::string_view model_type) {
  if (model_type == "marian") return {};
  if (model_type == "pegasus") return {.pre = true};
  if (model_type == "m2m_100") return {.pre = true, .position_table = false};
  return {.pre = model_type == "mbart", .embedding_norm = true, .more_positions = 2};
}

Tower bart_tower(const Config& config, bool decoder, std::int64_t length) {
  const std::int64_t hidden = config.size({"d_model"}), vocab = config.size({"vocab_size"});
  const BartKind kind = bart_kind(config.text("model_type"));
  const std::string path = decoder ? "model.decoder" : "model.encoder";
  Tower tower;
  tower.length = length;
  if (decoder) tower.memory_length = length;
  tower.generates = decoder;
  tower.parts.push_back(decoder ? shared_table(path + ".embed_tokens", vocab, hidden)
                                : Part(Table{"model.shared", vocab, hidden}));
  if (kind.position_table) {
    const std::int64_t positions =
        config.size_or({"max_position_embeddings"}, 1024) + kind.more_positions;
    tower.parts.push_back(Table{path + ".embed_positions", positions, hidden, true});
  } else {
    tower.parts.push_back(Pointwise{path + ".embed_positions", "add", hidden});
  }
  if (kind.embedding_norm) {
    tower.parts.push_back(NormPart{path + ".layernorm_embedding", kLayerNorm, hidden});
  }
  const std::int64_t layers = read_layers(config, {decoder ? "decoder_layers" : "encoder_layers"});
  tower.parts.push_back(
      Stack{path + ".layers", hidden,
            repeat(bart_layer(config, hidden, decoder, kind.pre ? Placement::pre : Placement::post),
                   layers)});
  if (kind.pre) tower.parts.push_back(NormPart{path + ".layer_norm", kLayerNorm, hidden});
  return tower;
}

Model bart(const Config& config, const Request& request) {
  Model model;
  if (config.flag("normalize_before", false) && request.model_type == "bart") {
    config.set_error("bart with normalize_before is not modelled");
  }
  if (request.architecture.ends_with("ForCausalLM")) {
    config.set_error(fmt::format("architectures: found {}, a decoder alone, which is not modelled",
                                 rooftile::quoted(request.architecture)));
  }
  const std::int64_t length =
      choose_length(request, config.size_or({"max_position_embeddings"}, 1024), model);
  model.towers.push_back(bart_tower(config, false, length));
  Tower decoder = bart_tower(config, true, length);
  const std::int64_t hidden = config.size({"d_model"});
  if (request.architecture_has("SequenceClassification")) {
    decoder.generates = false;
    decoder.parts.push_back(Projection{.path = "classification_head.dense",
                                       .in = hidden,
                                       .out = hidden,
                                       .bias = true,
                                       .rows = Rows::sequences,
                                       .activation = "tanh"});
    decoder.parts.push_back(Projection{.path = "classification_head.out_proj",
                                       .in = hidden,
                                       .out = read_labels(config),
                                       .bias = true,
                                       .rows = Rows::sequences});
  } else if (request.architecture.empty() || request.architecture_has("ConditionalGeneration") ||
             request.architecture_has("MarianMT")) {
    decoder.parts.push_back(Projection{
        .path = "lm_head", .in = hidden, .out = config.size({"vocab_size"}), .tied = true});
  }
  model.towers.push_back(std::move(decoder));
  model.notes.push_back("encoder and decoder are counted at the same length");
  return model;
}

Conv whisper_conv(std::string path, std::int64_t batch, std::int64_t in, std::int64_t out,
                  std::int64_t frames, std::int64_t stride) {
  Conv conv;
  conv.path = std::move(path);
  conv.body.n = batch;
  conv.body.c = in;
  conv.body.k = out;
  conv.body.input = {frames};
  conv.body.kernel = {3};
  conv.body.stride = {stride};
  conv.body.pad_begin = conv.body.pad_end = {1};
  conv.body.bias = true;
  conv.activation = "gelu";
  return conv;
}

Layer whisper_layer(const Config& config, std::int64_t hidden, bool decoder) {
  Layer layer = bart_layer(config, hidden, decoder, Placement::pre);
  std::get<SelfAttention>(layer.mixer).k_bias = false;
  if (layer.cross) layer.cross->k_bias = false;
  return layer;
}

// Whisper always encodes 30 s: 2 × max_source_positions frames of the log-mel spectrogram.
Tower whisper_encoder(const Config& config, const Request& request) {
  const std::int64_t hidden = config.size({"d_model"});
  Tower encoder;
  encoder.length = config.size_or({"max_source_positions"}, 1500);
  encoder.parts.push_back(whisper_conv("model.encoder.conv1", request.batch,
                                       config.size_or({"num_mel_bins"}, 80), hidden,
                                       2 * encoder.length, 1));
  encoder.parts.push_back(
      whisper_conv("model.encoder.conv2", request.batch, hidden, hidden, 2 * encoder.length, 2));
  encoder.parts.push_back(Table{"model.encoder.embed_positions", encoder.length, hidden, true});
  encoder.parts.push_back(
      Stack{"model.encoder.layers", hidden,
            repeat(whisper_layer(config, hidden, false), read_layers(config, {"encoder_layers"}))});
  encoder.parts.push_back(NormPart{"model.encoder.layer_norm", kLayerNorm, hidden});
  return encoder;
}

Model whisper(const Config& config, const Request& request) {
  Model model;
  const std::int64_t hidden = config.size({"d_model"}), vocab = config.size({"vocab_size"});
  const std::int64_t positions = config.size_or({"max_target_positions"}, 448);
  Tower decoder;
  decoder.length = choose_length(request, positions, model);
  decoder.generates = true;
  model.towers.push_back(whisper_encoder(config, request));
  decoder.memory_length = model.towers.front().length;
  decoder.parts.push_back(Table{"model.decoder.embed_tokens", vocab, hidden});
  decoder.parts.push_back(Table{"model.decoder.embed_positions", positions, hidden, true});
  decoder.parts.push_back(
      Stack{"model.decoder.layers", hidden,
            repeat(whisper_layer(config, hidden, true), read_layers(config, {"decoder_layers"}))});
  decoder.parts.push_back(NormPart{"model.decoder.layer_norm", kLayerNorm, hidden});
  if (!request.architecture.ends_with("Model")) {
    decoder.parts.push_back(
        Projection{.path = "proj_out", .in = hidden, .out = vocab, .tied = true});
  }
  model.towers.push_back(std::move(decoder));
  model.notes.push_back(request.decode
                            ? "the encoder has read 30 s of audio"
                            : "the encoder always reads 30 s of audio; --seq is the decoder's "
                              "length");
  return model;
}

}  // namespace

FamilyList encoder_decoder_families() {
  return {{"t5", t5},        {"mt5", t5},       {"umt5", t5},        {"switch_transformers", t5},
          {"bart", bart},    {"mbart", bart},   {"marian", bart},    {"plbart", bart},
          {"pegasus", bart}, {"m2m_100", bart}, {"whisper", whisper}};
}

}  // namespace rooftile::hf
