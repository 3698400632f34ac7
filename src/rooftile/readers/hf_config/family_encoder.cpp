// Text encoders: BERT and its relatives.
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

// RoBERTa's position table has two rows for padding that no token uses.
Model roberta(const Config& config, const Request& request) {
  Model model;
  EncoderSizes sizes = read_encoder_sizes(config);
  sizes.types = config.count_or({"type_vocab_size"}, 1);
  const std::int64_t longest = sizes.positions > 2 ? sizes.positions - 2 : sizes.positions;
  const std::int64_t length = choose_length(request, longest, model);
  Tower tower =
      encoder_tower(sizes, "roberta", "encoder.layer", encoder_layer(config, sizes), length);
  std::vector<Part>& parts = tower.parts;
  if (is_masked_model(request)) {
    add_masked_head(sizes, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", parts);
  } else if (request.architecture_has("SequenceClassification")) {
    parts.push_back(dense("classifier.dense", sizes.hidden, sizes.hidden, Rows::sequences, "tanh"));
    parts.push_back(
        dense("classifier.out_proj", sizes.hidden, read_labels(config), Rows::sequences));
  } else if (!add_token_head(config, request, sizes.hidden, parts)) {
    parts.push_back(
        dense("roberta.pooler.dense", sizes.hidden, sizes.hidden, Rows::sequences, "tanh"));
  }
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

}  // namespace

FamilyList encoder_families() {
  return {{"bert", bert},         {"roberta", roberta},       {"xlm-roberta", roberta},
          {"camembert", roberta}, {"distilbert", distilbert}, {"electra", electra},
          {"albert", albert},     {"deberta-v2", deberta_v2}};
}

}  // namespace rooftile::hf
