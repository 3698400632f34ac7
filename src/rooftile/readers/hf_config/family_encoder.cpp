// Text encoders: BERT and its relatives.
#include <fmt/format.h>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

struct EncoderSizes {
  std::int64_t hidden = 0, layers = 0, heads = 0, inner = 0, vocab = 0;
  std::int64_t positions = 0, types = 0, embedding = 0;
};

EncoderSizes read_encoder_sizes(const Config& config) {
  EncoderSizes sizes;
  sizes.hidden = config.size({"hidden_size", "dim"});
  sizes.layers = read_layers(config, {"num_hidden_layers", "n_layers"});
  sizes.heads = config.size({"num_attention_heads", "n_heads"});
  sizes.inner = config.size({"intermediate_size", "hidden_dim"});
  sizes.vocab = config.size({"vocab_size"});
  sizes.positions = config.size_or({"max_position_embeddings"}, 512);
  sizes.embedding = config.size_or({"embedding_size"}, sizes.hidden);
  return sizes;
}

// RoBERTa's position table has two rows for padding that no token uses.
std::int64_t positions_of_tokens(const EncoderSizes& sizes) {
  constexpr std::int64_t kPadding = 2;
  return sizes.positions > kPadding ? sizes.positions - kPadding : sizes.positions;
}

SelfAttention encoder_attention(const Config& config, const EncoderSizes& sizes) {
  SelfAttention attention;
  attention.module = "attention";
  attention.q = "self.query";
  attention.k = "self.key";
  attention.v = "self.value";
  attention.out = "output.dense";
  attention.heads = attention.kv_heads = sizes.heads;
  attention.head_dim =
      config.divide("hidden_size", sizes.hidden, "num_attention_heads", sizes.heads);
  set_bias(attention, true, true);
  attention.causal = config.flag("is_decoder", false);
  attention.rotary = false;
  return attention;
}

Layer encoder_layer(const Config& config, const EncoderSizes& sizes) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = Placement::post;
  layer.mixer_norm = "attention.output.LayerNorm";
  layer.feed_norm = "output.LayerNorm";
  layer.mixer = encoder_attention(config, sizes);
  Mlp mlp = plain_mlp("intermediate.dense", "output.dense", sizes.inner, true,
                      read_activation(config, {"hidden_act", "activation"}, "gelu"));
  mlp.module = "ffn";
  layer.feed = mlp;
  return layer;
}

void add_embeddings(const EncoderSizes& sizes, const std::string& prefix,
                    std::vector<Part>& parts) {
  const std::string at = prefix + ".embeddings.";
  parts.push_back(Table{at + "word_embeddings", sizes.vocab, sizes.embedding});
  if (sizes.positions > 0) {
    parts.push_back(Table{at + "position_embeddings", sizes.positions, sizes.embedding, true});
  }
  if (sizes.types > 0) {
    parts.push_back(Table{at + "token_type_embeddings", sizes.types, sizes.embedding, true});
  }
  parts.push_back(NormPart{at + "LayerNorm", kLayerNorm, sizes.embedding});
}

Tower encoder_tower(const EncoderSizes& sizes, const std::string& prefix, const std::string& layers,
                    const Layer& layer, std::int64_t length) {
  Tower tower;
  tower.length = length;
  add_embeddings(sizes, prefix, tower.parts);
  if (sizes.embedding != sizes.hidden) {
    tower.parts.push_back(Projection{.path = prefix + ".embeddings_project",
                                     .in = sizes.embedding,
                                     .out = sizes.hidden,
                                     .bias = true});
  }
  tower.parts.push_back(Stack{prefix + "." + layers, sizes.hidden, repeat(layer, sizes.layers)});
  return tower;
}

Projection dense(std::string path, std::int64_t in, std::int64_t out, Rows rows,
                 std::string activation = {}) {
  return {.path = std::move(path),
          .in = in,
          .out = out,
          .bias = true,
          .rows = rows,
          .activation = std::move(activation)};
}

// The masked-language head: a dense layer, a norm, and the word embeddings transposed.
void add_masked_head(const EncoderSizes& sizes, const std::string& transform,
                     const std::string& norm, const std::string& decoder,
                     std::vector<Part>& parts) {
  parts.push_back(dense(transform, sizes.hidden, sizes.embedding, Rows::tokens, "gelu"));
  parts.push_back(NormPart{norm, kLayerNorm, sizes.embedding});
  parts.push_back(Projection{
      .path = decoder, .in = sizes.embedding, .out = sizes.vocab, .bias = true, .tied = true});
}

bool is_masked_model(const Request& request) {
  return request.architecture_has("MaskedLM") || request.architecture_has("LMHeadModel") ||
         request.architecture_has("ForCausalLM");
}

// A classifier on each token, or the two logits of question answering; false if none is asked for.
bool add_token_head(const Config& config, const Request& request, std::int64_t hidden,
                    std::vector<Part>& parts) {
  if (request.architecture_has("TokenClassification")) {
    parts.push_back(dense("classifier", hidden, read_labels(config), Rows::tokens));
    return true;
  }
  if (request.architecture_has("QuestionAnswering")) {
    parts.push_back(dense("qa_outputs", hidden, 2, Rows::tokens));
    return true;
  }
  return false;
}

void add_bert_head(const Config& config, const Request& request, const EncoderSizes& sizes,
                   std::vector<Part>& parts) {
  if (add_token_head(config, request, sizes.hidden, parts)) return;
  const bool pretraining = request.architecture_has("ForPreTraining");
  Projection pooler =
      dense("bert.pooler.dense", sizes.hidden, sizes.hidden, Rows::sequences, "tanh");
  pooler.branch = pretraining;
  if (!is_masked_model(request)) parts.push_back(pooler);
  if (is_masked_model(request) || pretraining) {
    const std::string at = "cls.predictions.";
    add_masked_head(sizes, at + "transform.dense", at + "transform.LayerNorm", at + "decoder",
                    parts);
  }
  if (pretraining) {
    Projection next = dense("cls.seq_relationship", sizes.hidden, 2, Rows::sequences);
    next.reads = "bert.pooler.dense_activation";
    parts.push_back(next);
  }
  const bool choice = request.architecture_has("MultipleChoice");
  if (choice || request.architecture_has("SequenceClassification")) {
    parts.push_back(
        dense("classifier", sizes.hidden, choice ? 1 : read_labels(config), Rows::sequences));
  }
}

Model bert(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  const std::int64_t length = choose_length(request, sizes.positions, model);
  Tower tower = encoder_tower(sizes, "bert", "encoder.layer", encoder_layer(config, sizes), length);
  add_bert_head(config, request, sizes, tower.parts);
  model.towers.push_back(std::move(tower));
  return model;
}

// DPR: BERT without its pooler, and a projection where its width is stated.
Model dpr(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  const std::int64_t length = choose_length(request, sizes.positions, model);
  Tower tower =
      encoder_tower(sizes, "bert_model", "encoder.layer", encoder_layer(config, sizes), length);
  std::int64_t width = config.count_or({"projection_dim"}, 0);
  if (width > 0) {
    tower.parts.push_back(dense("encode_proj", sizes.hidden, width, Rows::sequences));
  }
  if (width == 0) width = sizes.hidden;
  if (request.architecture_has("Reader")) {
    tower.parts.push_back(dense("qa_outputs", width, 2, Rows::tokens));
    tower.parts.push_back(dense("qa_classifier", width, 1, Rows::sequences));
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// The heads of RoBERTa, which several encoders share.
void add_roberta_head(const Config& config, const Request& request, const EncoderSizes& sizes,
                      const std::string& prefix, std::vector<Part>& parts) {
  const std::int64_t hidden = sizes.hidden;
  if (is_masked_model(request)) {
    add_masked_head(sizes, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", parts);
  } else if (request.architecture_has("SequenceClassification")) {
    parts.push_back(dense("classifier.dense", hidden, hidden, Rows::sequences, "tanh"));
    parts.push_back(dense("classifier.out_proj", hidden, read_labels(config), Rows::sequences));
  } else if (!add_token_head(config, request, hidden, parts)) {
    parts.push_back(dense(prefix + ".pooler.dense", hidden, hidden, Rows::sequences, "tanh"));
  }
}

Model roberta(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 1);
  const std::int64_t length = choose_length(request, positions_of_tokens(sizes), model);
  Tower tower =
      encoder_tower(sizes, "roberta", "encoder.layer", encoder_layer(config, sizes), length);
  add_roberta_head(config, request, sizes, "roberta", tower.parts);
  model.towers.push_back(std::move(tower));
  return model;
}

Model distilbert(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  const std::int64_t length = choose_length(request, sizes.positions, model);
  Layer layer = encoder_layer(config, sizes);
  SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
  attention.q = "q_lin";
  attention.k = "k_lin";
  attention.v = "v_lin";
  attention.out = "out_lin";
  Mlp& mlp = std::get<Mlp>(layer.feed);
  mlp.up = "lin1";
  mlp.down = "lin2";
  layer.mixer_norm = "sa_layer_norm";
  layer.feed_norm = "output_layer_norm";
  Tower tower = encoder_tower(sizes, "distilbert", "transformer.layer", layer, length);
  std::vector<Part>& parts = tower.parts;
  if (is_masked_model(request)) {
    add_masked_head(sizes, "vocab_transform", "vocab_layer_norm", "vocab_projector", parts);
  } else if (request.architecture_has("SequenceClassification")) {
    parts.push_back(dense("pre_classifier", sizes.hidden, sizes.hidden, Rows::sequences, "relu"));
    parts.push_back(dense("classifier", sizes.hidden, read_labels(config), Rows::sequences));
  } else {
    add_token_head(config, request, sizes.hidden, parts);
  }
  model.towers.push_back(std::move(tower));
  return model;
}

Model electra(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  const std::int64_t length = choose_length(request, sizes.positions, model);
  Tower tower =
      encoder_tower(sizes, "electra", "encoder.layer", encoder_layer(config, sizes), length);
  std::vector<Part>& parts = tower.parts;
  if (request.architecture_has("ForPreTraining")) {
    parts.push_back(
        dense("discriminator_predictions.dense", sizes.hidden, sizes.hidden, Rows::tokens, "gelu"));
    parts.push_back(
        dense("discriminator_predictions.dense_prediction", sizes.hidden, 1, Rows::tokens));
  } else if (is_masked_model(request)) {
    add_masked_head(sizes, "generator_predictions.dense", "generator_predictions.LayerNorm",
                    "generator_lm_head", parts);
  } else if (request.architecture_has("SequenceClassification")) {
    parts.push_back(dense("classifier.dense", sizes.hidden, sizes.hidden, Rows::sequences, "gelu"));
    parts.push_back(
        dense("classifier.out_proj", sizes.hidden, read_labels(config), Rows::sequences));
  } else {
    add_token_head(config, request, sizes.hidden, parts);
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// ALBERT runs one layer's weights again and again, on an embedding of lower rank.
Model albert(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  sizes.embedding = config.size_or({"embedding_size"}, 128);
  if (config.size_or({"num_hidden_groups"}, 1) != 1 ||
      config.size_or({"inner_group_num"}, 1) != 1) {
    config.set_error("albert with more than one group of layers is not modelled");
  }
  const std::int64_t length = choose_length(request, sizes.positions, model);
  Tower tower = encoder_tower(sizes, "albert", "encoder.albert_layer_groups",
                              encoder_layer(config, sizes), length);
  for (Part& part : tower.parts) {
    if (auto* stack = std::get_if<Stack>(&part)) stack->shared_weights = true;
  }
  if (is_masked_model(request)) {
    add_masked_head(sizes, "predictions.dense", "predictions.LayerNorm", "predictions.decoder",
                    tower.parts);
  } else if (!add_token_head(config, request, sizes.hidden, tower.parts)) {
    tower.parts.push_back(
        dense("albert.pooler", sizes.hidden, sizes.hidden, Rows::sequences, "tanh"));
    if (request.architecture_has("SequenceClassification")) {
      tower.parts.push_back(
          dense("classifier", sizes.hidden, read_labels(config), Rows::sequences));
    }
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// DeBERTa v2 and v3: content and relative positions attend to each other, with shared projections.
Model deberta_v2(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 0);
  const std::int64_t longest = sizes.positions;
  if (!config.flag("position_biased_input", true)) sizes.positions = 0;
  if (!config.flag("share_att_key", false) || !config.flag("relative_attention", false)) {
    config.set_error("deberta-v2 without relative_attention and share_att_key is not modelled");
  }
  if (config.count_or({"conv_kernel_size"}, 0) > 0) {
    model.skipped["convolution after the first layer"] += 1;
  }
  Layer layer = encoder_layer(config, sizes);
  SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
  attention.q = "self.query_proj";
  attention.k = "self.key_proj";
  attention.v = "self.value_proj";
  attention.sdpa = false;
  const std::int64_t positions = 2 * config.size_or({"position_buckets"}, 256);
  attention.relative_positions = positions;
  const std::int64_t length = choose_length(request, longest, model);
  Tower tower = encoder_tower(sizes, "deberta", "encoder.layer", layer, length);
  tower.parts.push_back(Parameters{positions * sizes.hidden});
  if (config.text("norm_rel_ebd").find("layer_norm") != std::string::npos) {
    tower.parts.push_back(Parameters{2 * sizes.hidden});
  }
  if (is_masked_model(request)) {
    add_masked_head(sizes, "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                    "cls.predictions.decoder", tower.parts);
  } else if (request.architecture_has("SequenceClassification")) {
    tower.parts.push_back(
        dense("pooler.dense", sizes.hidden, sizes.hidden, Rows::sequences, "gelu"));
    tower.parts.push_back(dense("classifier", sizes.hidden, read_labels(config), Rows::sequences));
  } else {
    add_token_head(config, request, sizes.hidden, tower.parts);
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// MPNet: one table of relative positions for all layers, and no token types.
Model mpnet(const Config& config, const Request& request) {
  Model model;
  const EncoderSizes sizes = read_encoder_sizes(config);
  const std::int64_t length = choose_length(request, positions_of_tokens(sizes), model);
  Layer layer = encoder_layer(config, sizes);
  SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
  attention.q = "attn.q";
  attention.k = "attn.k";
  attention.v = "attn.v";
  attention.out = "attn.o";
  attention.sdpa = false;
  layer.mixer_norm = "attention.LayerNorm";
  Tower tower = encoder_tower(sizes, "mpnet", "encoder.layer", layer, length);
  std::vector<Part>& parts = tower.parts;
  parts.push_back(Parameters{config.size_or({"relative_attention_num_buckets"}, 32) * sizes.heads});
  add_roberta_head(config, request, sizes, "mpnet", parts);
  model.towers.push_back(std::move(tower));
  return model;
}

// ModernBERT: rotary positions, gated MLPs, norms before the blocks, windows in two layers of
// three; the first layer has no norm before its attention.
Model modernbert(const Config& config, const Request& request) {
  Model model;
  const std::int64_t longest = config.size_or({"max_position_embeddings"}, 8192);
  EncoderSizes sizes = read_encoder_sizes(config);
  const std::int64_t length = choose_length(request, longest, model);
  const bool attention_bias = config.flag("attention_bias", false);
  SelfAttention attention = encoder_attention(config, sizes);
  attention.module = "attn";
  attention.fused = "Wqkv";
  attention.out = "Wo";
  attention.rotary = true;
  set_bias(attention, attention_bias, attention_bias);
  Mlp mlp;
  mlp.fused = "Wi";
  mlp.down = "Wo";
  mlp.inner = sizes.inner;
  mlp.up_bias = mlp.down_bias = config.flag("mlp_bias", false);
  mlp.activation = read_activation(config, {"hidden_activation"}, "gelu");
  const Norm norm{NormKind::layer, true, config.flag("norm_bias", false), true};
  const std::int64_t period = config.size_or({"global_attn_every_n_layers"}, 3);
  const auto sliding =
      sliding_layers(config, sizes.layers, [&](std::int64_t index) { return index % period != 0; });
  std::vector<Layer> layers;
  for (const bool is_local : sliding) {
    attention.window = is_local ? config.count_or({"local_attention"}, 128) : 0;
    Layer& layer = layers.emplace_back();
    layer.norm = norm;
    layer.mixer_norm = layers.size() == 1 ? "" : "attn_norm";
    layer.feed_norm = "mlp_norm";
    layer.mixer = attention;
    layer.feed = mlp;
  }
  Tower tower;
  tower.length = length;
  tower.parts.push_back(Table{"model.embeddings.tok_embeddings", sizes.vocab, sizes.hidden});
  tower.parts.push_back(NormPart{"model.embeddings.norm", norm, sizes.hidden});
  tower.parts.push_back(Stack{"model.layers", sizes.hidden, std::move(layers)});
  tower.parts.push_back(NormPart{"model.final_norm", norm, sizes.hidden});
  const bool masked = request.architecture_has("MaskedLM");
  if (!request.architecture.ends_with("Model")) {
    const Rows rows =
        request.architecture_has("SequenceClassification") ? Rows::sequences : Rows::tokens;
    Projection head = dense("head.dense", sizes.hidden, sizes.hidden, rows, "gelu");
    head.bias = config.flag("classifier_bias", false);
    tower.parts.push_back(head);
    tower.parts.push_back(NormPart{"head.norm", norm, sizes.hidden, rows});
    Projection last = dense(masked ? "decoder" : "classifier", sizes.hidden,
                            masked ? sizes.vocab : read_labels(config), rows);
    last.bias = !masked || config.flag("decoder_bias", true);
    last.tied = masked;
    tower.parts.push_back(last);
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// Nomic's BERT: rotary positions and gated MLPs, nothing with a bias. Published configs have the
// names of GPT-2.
Model nomic_bert(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes;
  sizes.hidden = sizes.embedding = config.size({"hidden_size", "n_embd"});
  sizes.layers = read_layers(config, {"num_hidden_layers", "n_layer"});
  sizes.heads = config.size({"num_attention_heads", "n_head"});
  sizes.inner = config.size({"intermediate_size", "n_inner"});
  sizes.vocab = config.size({"vocab_size"});
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  const std::int64_t longest = config.size_or({"max_position_embeddings", "n_positions"}, 2048);
  Layer layer = encoder_layer(config, sizes);
  SelfAttention attention = std::get<SelfAttention>(layer.mixer);
  attention.module = "self_attn";
  attention.q = "q_proj";
  attention.k = "k_proj";
  attention.v = "v_proj";
  attention.out = "o_proj";
  attention.rotary = true;
  set_bias(attention, false, false);
  layer.mixer = attention;
  Mlp mlp;
  mlp.inner = sizes.inner;
  layer.feed = mlp;
  layer.mixer_norm = "post_attention_layernorm";
  layer.feed_norm = "post_mlp_layernorm";
  Tower tower =
      encoder_tower(sizes, "model", "layers", layer, choose_length(request, longest, model));
  if (is_masked_model(request)) {
    const std::string at = "cls.predictions.";
    add_masked_head(sizes, at + "transform.dense", at + "transform.LayerNorm", at + "decoder",
                    tower.parts);
  } else if (!add_token_head(config, request, sizes.hidden, tower.parts)) {
    if (request.architecture_has("SequenceClassification")) {
      tower.parts.push_back(
          dense("classifier", sizes.hidden, read_labels(config), Rows::sequences));
    }
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// ESM-2: a protein's residues as tokens, norms before the blocks, and a head of contacts.
Model esm(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  const bool rotary = config.text("position_embedding_type", "absolute") == "rotary";
  const std::int64_t longest = sizes.positions;
  Layer layer = encoder_layer(config, sizes);
  layer.placement = Placement::pre;
  layer.mixer_norm = "attention.LayerNorm";
  layer.feed_norm = "LayerNorm";
  std::get<SelfAttention>(layer.mixer).rotary = rotary;
  std::get<Mlp>(layer.feed).activation = "gelu";
  Tower tower;
  tower.length = choose_length(request, longest, model);
  tower.parts.push_back(Table{"esm.embeddings.word_embeddings", sizes.vocab, sizes.hidden});
  if (!rotary) {
    tower.parts.push_back(
        Table{"esm.embeddings.position_embeddings", sizes.positions, sizes.hidden, true});
  }
  if (config.flag("emb_layer_norm_before", false)) {
    tower.parts.push_back(NormPart{"esm.embeddings.layer_norm", kLayerNorm, sizes.hidden});
  }
  tower.parts.push_back(Stack{"esm.encoder.layer", sizes.hidden, repeat(layer, sizes.layers)});
  tower.parts.push_back(NormPart{"esm.encoder.emb_layer_norm_after", kLayerNorm, sizes.hidden});
  tower.parts.push_back(Parameters{sizes.layers * sizes.heads + 1});  // contact_head
  add_roberta_head(config, request, sizes, "esm", tower.parts);
  model.towers.push_back(std::move(tower));
  return model;
}

// Longformer: windows, and a second set of projections for tokens with global attention.
Model longformer(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  const std::vector<std::int64_t> windows = config.sizes("attention_window");
  if (windows.empty() ||
      (windows.size() > 1 && static_cast<std::int64_t>(windows.size()) != sizes.layers)) {
    config.set_error("attention_window: expected one size, or one for each layer");
    return {};
  }
  std::vector<Layer> layers;
  for (std::int64_t index = 0; index < sizes.layers; ++index) {
    Layer& layer = layers.emplace_back(encoder_layer(config, sizes));
    SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
    attention.window =
        windows.size() == 1 ? windows.front() : windows[static_cast<std::size_t>(index)];
    attention.sdpa = false;
    attention.extra_parameters = 3 * (sizes.hidden * sizes.hidden + sizes.hidden);
  }
  Tower tower;
  tower.length = choose_length(request, positions_of_tokens(sizes), model);
  add_embeddings(sizes, "longformer", tower.parts);
  tower.parts.push_back(Stack{"longformer.encoder.layer", sizes.hidden, std::move(layers)});
  add_roberta_head(config, request, sizes, "longformer", tower.parts);
  model.towers.push_back(std::move(tower));
  model.notes.push_back("no token is taken to have global attention");
  model.skipped["global attention"] += sizes.layers;
  return model;
}

// XLNet: attention with a projection of relative positions, in separate operations.
Model xlnet(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes;
  sizes.hidden = sizes.embedding = config.size({"d_model"});
  sizes.layers = read_layers(config, {"n_layer"});
  sizes.heads = config.size({"n_head"});
  sizes.inner = config.size({"d_inner"});
  sizes.vocab = config.size({"vocab_size", "n_token"});
  constexpr std::int64_t kTrainedLength = 512;  // it has no longest input
  Tower tower;
  tower.length = choose_length(request, request.seq.value_or(kTrainedLength), model);
  Layer layer = encoder_layer(config, sizes);
  SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
  attention.module = "rel_attn";
  attention.q = "q";
  attention.k = "k";
  attention.v = "v";
  attention.out = "o";
  set_bias(attention, false, false);
  attention.causal = config.text("attn_type", "bi") == "uni";
  attention.sdpa = false;
  attention.relative_positions = 2 * tower.length;
  attention.relative_weight = "r";
  attention.extra_parameters = 5 * sizes.hidden;  // three biases, two segments
  Mlp& mlp = std::get<Mlp>(layer.feed);
  mlp.module = "ff";
  mlp.up = "layer_1";
  mlp.down = "layer_2";
  mlp.activation = read_activation(config, {"ff_activation"}, "gelu");
  layer.mixer_norm = "rel_attn.layer_norm";
  layer.feed_norm = "ff.layer_norm";
  tower.parts.push_back(Table{"transformer.word_embedding", sizes.vocab, sizes.hidden});
  tower.parts.push_back(Parameters{sizes.hidden});  // mask_emb
  tower.parts.push_back(Stack{"transformer.layer", sizes.hidden, repeat(layer, sizes.layers)});
  if (is_masked_model(request)) {
    Projection head = dense("lm_loss", sizes.hidden, sizes.vocab, Rows::tokens);
    head.tied = config.flag("tie_word_embeddings", true);
    tower.parts.push_back(head);
  } else if (request.architecture_has("SequenceClassification")) {
    tower.parts.push_back(
        dense("sequence_summary.summary", sizes.hidden, sizes.hidden, Rows::sequences, "tanh"));
    tower.parts.push_back(dense("logits_proj", sizes.hidden, read_labels(config), Rows::sequences));
  } else {
    add_token_head(config, request, sizes.hidden, tower.parts);
  }
  model.towers.push_back(std::move(tower));
  return model;
}

// LayoutLMv3's head: one product for few labels of tokens, else two.
void add_layout_head(const Config& config, const Request& request, std::int64_t hidden,
                     std::vector<Part>& parts) {
  constexpr std::int64_t kFewLabels = 10;  // LayoutLMv3ForTokenClassification
  const std::int64_t labels = read_labels(config);
  const bool tokens = request.architecture_has("TokenClassification");
  if (!tokens && !request.architecture_has("SequenceClassification") &&
      !request.architecture_has("QuestionAnswering")) {
    return;
  }
  const Rows rows =
      request.architecture_has("SequenceClassification") ? Rows::sequences : Rows::tokens;
  if (tokens && labels < kFewLabels) {
    parts.push_back(dense("classifier", hidden, labels, rows));
    return;
  }
  parts.push_back(dense("classifier.dense", hidden, hidden, rows, "tanh"));
  parts.push_back(dense("classifier.out_proj", hidden, labels, rows));
}

// LayoutLMv3: tokens with a box on the page, and the page's patches behind them.
Model layoutlmv3(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 2);
  Tower tower;
  tower.length = choose_length(request, positions_of_tokens(sizes), model);
  std::vector<Part>& parts = tower.parts;
  if (config.flag("visual_embed", true)) {
    const std::int64_t patch = config.size_or({"patch_size"}, 16);
    const std::int64_t side = config.size_or({"input_size"}, 224) / patch;
    if (side < 1 || side > 4096) config.set_error("patch_size: expected 1 to input_size");
    Conv conv;
    conv.path = "layoutlmv3.patch_embed.proj";
    conv.body.n = request.batch;
    conv.body.c = config.size_or({"num_channels"}, 3);
    conv.body.k = sizes.hidden;
    conv.body.input = {side * patch, side * patch};
    conv.body.kernel = conv.body.stride = {patch, patch};
    conv.body.bias = true;
    parts.push_back(conv);
    const std::int64_t patches = side * side + 1;
    parts.push_back(Parameters{(1 + patches) * sizes.hidden});  // class token, positions
    parts.push_back(Parameters{4 * sizes.hidden});              // LayerNorm, norm
    tower.length += patches;
    model.notes.push_back(
        fmt::format("{} tokens of the page's image follow those of --seq", patches));
  }
  add_embeddings(sizes, "layoutlmv3", parts);
  const std::int64_t places = config.size_or({"max_2d_position_embeddings"}, 1024);
  parts.push_back(
      Table{"layoutlmv3.embeddings.spatial_position_embeddings", places, sizes.hidden, true, true});
  parts.push_back(
      Parameters{2 * places *
                 (config.size_or({"coordinate_size"}, 128) + config.size_or({"shape_size"}, 128))});
  Layer layer = encoder_layer(config, sizes);
  auto& attention = std::get<SelfAttention>(layer.mixer);
  attention.sdpa = false;
  if (config.flag("has_relative_attention_bias", true)) {
    parts.push_back(Parameters{config.size_or({"rel_pos_bins"}, 32) * sizes.heads});
  }
  if (config.flag("has_spatial_attention_bias", true)) {
    parts.push_back(Parameters{2 * config.size_or({"rel_2d_pos_bins"}, 64) * sizes.heads});
  }
  parts.push_back(Stack{"layoutlmv3.encoder.layer", sizes.hidden, repeat(layer, sizes.layers)});
  add_layout_head(config, request, sizes.hidden, parts);
  model.towers.push_back(std::move(tower));
  return model;
}

}  // namespace

FamilyList encoder_families() {
  return {{"bert", bert},
          {"ernie", bert},
          {"dpr", dpr},
          {"data2vec-text", roberta},
          {"roberta", roberta},
          {"xlm-roberta", roberta},
          {"camembert", roberta},
          {"distilbert", distilbert},
          {"electra", electra},
          {"albert", albert},
          {"deberta-v2", deberta_v2},
          {"mpnet", mpnet},
          {"modernbert", modernbert},
          {"nomic_bert", nomic_bert},
          {"esm", esm},
          {"longformer", longformer},
          {"xlnet", xlnet},
          {"layoutlmv3", layoutlmv3}};
}

}  // namespace rooftile::hf
