// Speech encoders on raw audio: wav2vec 2.0 and HuBERT.
#include <fmt/format.h>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {
namespace {

// 10 s at 16 kHz.
constexpr std::int64_t kDefaultSamples = 160000;

struct FeatureConv {
  std::int64_t channels = 0, kernel = 0, stride = 0;
};

std::vector<FeatureConv> read_feature_convs(const Config& config) {
  std::vector<std::int64_t> channels = config.sizes("conv_dim");
  std::vector<std::int64_t> kernels = config.sizes("conv_kernel");
  std::vector<std::int64_t> strides = config.sizes("conv_stride");
  if (channels.empty()) channels.assign(7, 512);
  if (kernels.empty()) kernels = {10, 3, 3, 3, 3, 2, 2};
  if (strides.empty()) strides = {5, 2, 2, 2, 2, 2, 2};
  if (channels.size() != kernels.size() || channels.size() != strides.size() ||
      channels.size() > 32) {
    config.set_error(
        fmt::format("conv_dim, conv_kernel and conv_stride have {}, {} and {} entries, "
                    "expected equally many",
                    channels.size(), kernels.size(), strides.size()));
    return {};
  }
  std::vector<FeatureConv> convs;
  for (std::size_t index = 0; index < channels.size(); ++index) {
    const FeatureConv conv{channels[index], kernels[index], strides[index]};
    if (conv.channels < 1 || conv.kernel < 1 || conv.kernel > 4096 || conv.stride < 1 ||
        conv.stride > 4096) {
      config.set_error("conv_kernel and conv_stride: expected sizes from 1 to 4096");
      return {};
    }
    convs.push_back(conv);
  }
  return convs;
}

// Frames that the convolutions make of `samples`; 0 when the audio is too short.
std::int64_t count_frames(const std::vector<FeatureConv>& convs, std::int64_t samples) {
  for (const FeatureConv& conv : convs) {
    if (samples < conv.kernel) return 0;
    samples = (samples - conv.kernel) / conv.stride + 1;
  }
  return samples;
}

// The shortest audio that gives `frames`; 0 when it is beyond any sensible length.
std::int64_t samples_for(const std::vector<FeatureConv>& convs, std::int64_t frames) {
  constexpr std::int64_t kMaxSamples = 1'000'000'000;
  std::int64_t samples = frames;
  for (auto conv = convs.rbegin(); conv != convs.rend(); ++conv) {
    if (samples > kMaxSamples) return 0;
    samples = (samples - 1) * conv->stride + conv->kernel;
  }
  return samples > kMaxSamples ? 0 : samples;
}

void add_feature_extractor(const Config& config, const Request& request,
                           const std::vector<FeatureConv>& convs, std::int64_t samples,
                           const std::string& prefix, std::vector<Part>& parts) {
  const bool group_norm = config.text("feat_extract_norm", "group") == "group";
  std::int64_t channels = 1;
  for (std::size_t index = 0; index < convs.size(); ++index) {
    Conv conv;
    conv.path = fmt::format("{}.feature_extractor.conv_layers.{}.conv", prefix, index);
    conv.body.n = request.batch;
    conv.body.c = channels;
    conv.body.k = convs[index].channels;
    conv.body.input = {samples};
    conv.body.kernel = {convs[index].kernel};
    conv.body.stride = {convs[index].stride};
    conv.body.bias = config.flag("conv_bias", false);
    conv.activation = "gelu";
    if (!group_norm) conv.norm = kLayerNorm;
    if (group_norm && index == 0) conv.norm = {NormKind::group, true, true, true};
    samples = (samples - convs[index].kernel) / convs[index].stride + 1;
    channels = convs[index].channels;
    parts.push_back(std::move(conv));
  }
}

// A grouped convolution gives relative positions; its weight is normalised, with one more
// parameter for each tap.
Conv position_conv(const Config& config, const Request& request, std::int64_t hidden,
                   std::int64_t frames, const std::string& prefix) {
  const std::int64_t kernel = config.size_or({"num_conv_pos_embeddings"}, 128);
  Conv conv;
  conv.path = prefix + ".encoder.pos_conv_embed.conv";
  conv.body.n = request.batch;
  conv.body.c = conv.body.k = hidden;
  conv.body.input = {frames};
  conv.body.kernel = {kernel};
  conv.body.groups = config.size_or({"num_conv_pos_embedding_groups"}, 16);
  config.divide("hidden_size", hidden, "num_conv_pos_embedding_groups", conv.body.groups);
  conv.body.pad_begin = {kernel / 2};
  // With an even kernel the last output is cut off.
  conv.body.pad_end = {kernel / 2 - (kernel % 2 == 0 ? 1 : 0)};
  conv.body.bias = true;
  conv.extra_parameters = kernel;
  conv.activation = "gelu";
  conv.residual = true;
  return conv;
}

Layer speech_layer(const Config& config, std::int64_t hidden) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = config.flag("do_stable_layer_norm", false) ? Placement::pre : Placement::post;
  layer.mixer_norm = "layer_norm";
  layer.feed_norm = "final_layer_norm";
  SelfAttention attention;
  attention.module = "attention";
  attention.out = "out_proj";
  attention.heads = attention.kv_heads = config.size({"num_attention_heads"});
  attention.head_dim = config.divide("hidden_size", hidden, "num_attention_heads", attention.heads);
  set_bias(attention, true, true);
  attention.causal = attention.rotary = false;
  layer.mixer = attention;
  Mlp mlp = plain_mlp("intermediate_dense", "output_dense", config.size({"intermediate_size"}),
                      true, read_activation(config, {"hidden_act"}, "gelu"));
  mlp.module = "feed_forward";
  layer.feed = mlp;
  return layer;
}

void add_speech_head(const Config& config, const Request& request, std::int64_t hidden,
                     std::vector<Part>& parts) {
  if (request.architecture_has("ForCTC")) {
    parts.push_back(Projection{
        .path = "lm_head", .in = hidden, .out = config.size_or({"vocab_size"}, 32), .bias = true});
  } else if (request.architecture_has("SequenceClassification")) {
    const std::int64_t width = config.size_or({"classifier_proj_size"}, 256);
    parts.push_back(Projection{.path = "projector", .in = hidden, .out = width, .bias = true});
    parts.push_back(Projection{.path = "classifier",
                               .in = width,
                               .out = read_labels(config),
                               .bias = true,
                               .rows = Rows::sequences});
  }
}

std::int64_t choose_samples(const Config& config, const Request& request,
                            const std::vector<FeatureConv>& convs, Model& model) {
  if (!request.seq) {
    model.notes.push_back(
        "10 s of audio at 16 kHz assumed; --seq sets the number of feature frames");
    return kDefaultSamples;
  }
  const std::int64_t samples = samples_for(convs, *request.seq);
  if (samples == 0) {
    config.set_error(
        fmt::format("--seq {}: that many frames need more than a billion samples", *request.seq));
  } else {
    constexpr double kSamplesOfSecond = 16000;
    model.notes.push_back(fmt::format(
        "--seq {} is the number of feature frames: {:.2f} s of audio at 16 kHz, {} samples",
        *request.seq, static_cast<double>(samples) / kSamplesOfSecond, samples));
  }
  return samples;
}

// WavLM: a table of relative positions in the first layer, gated by the queries in each.
void add_gated_positions(const Config& config, std::vector<Layer>& layers,
                         std::vector<Part>& parts) {
  constexpr std::int64_t kGates = 8;
  for (Layer& layer : layers) {
    SelfAttention& attention = std::get<SelfAttention>(layer.mixer);
    attention.sdpa = false;
    attention.extra_parameters = attention.heads + kGates * attention.head_dim + kGates;
  }
  const std::int64_t heads = std::get<SelfAttention>(layers.front().mixer).heads;
  parts.push_back(Parameters{config.size_or({"num_buckets"}, 320) * heads});
}

Model wav2vec2(const Config& config, const Request& request) {
  Model model;
  const std::string& prefix = request.model_type;
  const std::vector<FeatureConv> convs = read_feature_convs(config);
  if (convs.empty()) return {};
  const std::int64_t samples = choose_samples(config, request, convs, model);
  const std::int64_t hidden = config.size({"hidden_size"});
  const bool stable = config.flag("do_stable_layer_norm", false);
  Tower tower;
  tower.length = count_frames(convs, samples);
  if (tower.length < 1) {
    config.set_error("conv_kernel and conv_stride leave no frame of 10 s of audio");
    return {};
  }
  model.sequence = tower.length;
  add_feature_extractor(config, request, convs, samples, prefix, tower.parts);
  const std::int64_t features = convs.back().channels;
  if (prefix != "hubert" || config.flag("feat_proj_layer_norm", true)) {
    tower.parts.push_back(
        NormPart{prefix + ".feature_projection.layer_norm", kLayerNorm, features});
  }
  tower.parts.push_back(Projection{.path = prefix + ".feature_projection.projection",
                                   .in = features,
                                   .out = hidden,
                                   .bias = true});
  tower.parts.push_back(Parameters{hidden});  // masked_spec_embed
  tower.parts.push_back(position_conv(config, request, hidden, tower.length, prefix));
  const NormPart norm{prefix + ".encoder.layer_norm", kLayerNorm, hidden};
  if (!stable) tower.parts.push_back(norm);
  std::vector<Layer> layers =
      repeat(speech_layer(config, hidden), read_layers(config, {"num_hidden_layers"}));
  if (prefix == "wavlm") add_gated_positions(config, layers, tower.parts);
  tower.parts.push_back(Stack{prefix + ".encoder.layers", hidden, std::move(layers)});
  if (stable) tower.parts.push_back(norm);
  if (config.flag("add_adapter", false)) model.skipped["adapter"] += 1;
  if (request.architecture_has("ForPreTraining")) model.skipped["quantizer and projections"] += 1;
  add_speech_head(config, request, hidden, tower.parts);
  model.towers.push_back(std::move(tower));
  return model;
}

}  // namespace

FamilyList speech_families() {
  return {{"wav2vec2", wav2vec2},
          {"hubert", wav2vec2},
          {"wavlm", wav2vec2},
          {"unispeech", wav2vec2},
          {"unispeech-sat", wav2vec2}};
}

}  // namespace rooftile::hf
