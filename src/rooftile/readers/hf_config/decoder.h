// What decoder families have in common: sizes under their usual names, length, embedding and head.
#pragma once

#include <string>
#include <vector>

#include "rooftile/readers/hf_config/families.h"

namespace rooftile::hf {

// Sizes of a decoder in the spelling of Llama.
struct DecoderSizes {
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
};
DecoderSizes read_decoder_sizes(const Config& config);

// num_hidden_layers, at most kMaxLayers.
std::int64_t read_layers(const Config& config, Keys keys);

// Heads that divide the width, or an explicit head_dim.
std::int64_t read_head_dim(const Config& config, std::int64_t hidden, std::int64_t heads);
std::int64_t read_kv_heads(const Config& config, std::int64_t heads);

// A self-attention with these sizes and Llama's names.
SelfAttention attention_of(const DecoderSizes& sizes);

// Positions of each sequence: --seq, else the smaller of the model's longest input and 2048, noted;
// when decoding those in the cache, --past or 1024 unless the model is shorter, and the new one.
// Empty `longest`: the model states no limit.
std::int64_t choose_length(const Request& request, std::optional<std::int64_t> longest,
                           Model& model);

// Makes it the step that generates one more token of each sequence: the towers that generate run
// on it, the others have run before. False where none generates.
bool make_decode_step(Model& model);

// Whether each layer attends within a window: layer_types where given, else `fallback(index)`.
template <class Fallback>
std::vector<bool> sliding_layers(const Config& config, std::int64_t layers, Fallback fallback) {
  const std::vector<std::string> types = config.texts("layer_types");
  std::vector<bool> sliding{};
  for (std::int64_t index = 0; index < layers; ++index) {
    const auto at = static_cast<std::size_t>(index);
    sliding.push_back(at < types.size()
                          ? types[at] == "sliding_attention" || types[at] == "chunked_attention"
                          : fallback(index));
  }
  return sliding;
}

// The usual frame: embedding, layers, final norm, output head.
struct DecoderFrame {
  std::string embedding = "model.embed_tokens", layers = "model.layers", norm = "model.norm",
              head = "lm_head";
  Norm final_norm = kRmsNorm;
  bool tied = false, head_bias = false;
  std::vector<Part> after_embedding{}, after_layers{}, before_head{};
  std::int64_t embedding_width = 0;  // of embedding and head; 0 = the layers'
};
Model decoder_model(const Config& config, const Request& request, const DecoderSizes& sizes,
                    const DecoderFrame& frame, std::vector<Layer> layers);

// Adds the head that the architecture's name asks for: none for "…Model", a classifier for
// "…ForSequenceClassification", else the language model's.
void add_decoder_head(const Config& config, const Request& request, const DecoderSizes& sizes,
                      const DecoderFrame& frame, std::vector<Part>& parts);

// Number of labels of a classifier: id2label, num_labels, else Transformers' default of 2.
std::int64_t read_labels(const Config& config);

// Activation names as operations spell them: gelu_new and gelu_pytorch_tanh are gelu.
std::string read_activation(const Config& config, Keys keys, std::string_view fallback);

// An MLP of two products.
Mlp plain_mlp(std::string up, std::string down, std::int64_t inner, bool bias,
              std::string activation);

void set_bias(SelfAttention& attention, bool qkv, bool out);

// The default frame with the tying that the config states, else `tied`.
DecoderFrame frame_of(const Config& config, bool tied = false);

std::vector<Layer> repeat(const Layer& layer, std::int64_t layers);

void note_multi_token_prediction(const Config& config, Model& model);

}  // namespace rooftile::hf
