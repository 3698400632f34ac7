// Networks on feature maps: ResNet, ConvNeXt, Swin, SegFormer.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"
#include "rooftile/readers/hf_config/resnet.h"

namespace rooftile::hf {
namespace {

void add_image_classifier(const Config& config, const Request& request, std::int64_t width,
                          Model& model) {
  if (!request.architecture_has("ImageClassification")) return;
  model.towers.back().parts.push_back(Projection{.path = "classifier",
                                                 .in = width,
                                                 .out = read_labels(config),
                                                 .bias = true,
                                                 .rows = Rows::sequences});
}

// ---- ResNet

Model resnet(const Config& config, const Request& request) {
  Model model;
  ResNet net = read_resnet(config);
  net.path = "resnet";
  net.image = read_image(config, request, 224, model);
  if (net.stages.size() == 0) return {};
  const std::int64_t width = net.stages.widths.back();
  add_map_tower(
      request,
      [net](MapEmitter& out) { return out.mean("resnet.pooler", emit_resnet(out, net).back()); },
      model);
  add_image_classifier(config, request, width, model);
  return model;
}

// ---- ConvNeXt

struct ConvNext {
  Map image;
  std::int64_t patch = 4;
  Stages stages;
  bool second = false, layer_scale = true;
  std::string activation;
};

// A norm over positions, scaled for each channel (ConvNeXt V2).
Map response_norm(MapEmitter& net, const Map& in) {
  const Map means = net.mean("grn.norm", in);
  net.parameters(2 * in.channels);
  return net.multiply("grn", in, means);
}

Map convnext_block(MapEmitter& net, const ConvNext& config, const Map& in) {
  const std::int64_t width = in.channels;
  Map map = net.conv("dwconv", in, {width, 7, 1, 3, width});
  map = net.layer_norm("layernorm", map);
  map = net.activation("act", net.linear("pwconv1", map, 4 * width), config.activation);
  if (config.second) map = response_norm(net, map);
  map = net.linear("pwconv2", map, width);
  if (config.layer_scale) {
    net.parameters(width);
    map = net.activation("layer_scale", map, "mul");
  }
  return net.add("residual", in, map);
}

Map emit_convnext(MapEmitter& net, const ConvNext& config, const std::string& prefix) {
  Map map = net.conv(prefix + ".embeddings.patch_embeddings", config.image,
                     {config.stages.widths.front(), config.patch, config.patch});
  map = net.layer_norm(prefix + ".embeddings.layernorm", map);
  for (std::size_t stage = 0; stage < config.stages.size(); ++stage) {
    const std::string path = fmt::format("{}.encoder.stages.{}", prefix, stage);
    if (stage > 0) {
      map = net.layer_norm(path + ".downsampling_layer.0", map);
      map = net.conv(path + ".downsampling_layer.1", map, {config.stages.widths[stage], 2, 2});
    }
    net.enter(path + ".layers", 0, config.stages.depths[stage]);
    map = convnext_block(net, config, map);
    net.leave();
  }
  return net.layer_norm(prefix + ".layernorm", net.mean(prefix + ".pooler", map));
}

Model convnext(const Config& config, const Request& request) {
  Model model;
  const bool second = request.model_type == "convnextv2";
  const ConvNext net{read_image(config, request, 224, model),
                     config.size_or({"patch_size"}, 4),
                     read_stages(config, {3, 3, 9, 3}, {96, 192, 384, 768}),
                     second,
                     !second && config.number("layer_scale_init_value").value_or(1e-6) > 0.0,
                     read_activation(config, {"hidden_act"}, "gelu")};
  if (net.stages.size() == 0) return {};
  const std::string prefix = request.model_type;
  add_map_tower(
      request, [net, prefix](MapEmitter& out) { return emit_convnext(out, net, prefix); }, model);
  add_image_classifier(config, request, net.stages.widths.back(), model);
  return model;
}

// ---- Swin

struct Swin {
  Map image;
  std::int64_t patch = 4, width = 96, window = 7;
  std::vector<std::int64_t> depths, heads;
  double mlp_ratio = 4.0;
  bool qkv_bias = true, positions = false;
  std::string activation;
};

// Windows of the map, which is padded to hold whole ones; so is the result.
Map swin_attention(MapEmitter& net, const Swin& config, const Map& in, std::int64_t heads) {
  const std::int64_t window = std::min({config.window, in.height, in.width});
  Map padded = in;
  padded.height = multiple(in.height, window);
  padded.width = multiple(in.width, window);
  net.parameters((2 * config.window - 1) * (2 * config.window - 1) * heads);
  const Map q = net.linear("attention.q_proj", padded, in.channels, config.qkv_bias);
  const Map k = net.linear("attention.k_proj", padded, in.channels, config.qkv_bias);
  const Map v = net.linear("attention.v_proj", padded, in.channels, config.qkv_bias);
  const std::int64_t windows = padded.positions() / (window * window);
  const Map out = net.attention("attention.attention", q, k, v, {heads, windows});
  return net.linear("attention.o_proj", out, in.channels);
}

Map swin_block(MapEmitter& net, const Swin& config, const Map& in, std::int64_t heads) {
  Map map = net.layer_norm("layernorm_before", in);
  const Map attended = net.add("attention_residual", in, swin_attention(net, config, map, heads));
  map = net.layer_norm("layernorm_after", attended);
  const auto inner = static_cast<std::int64_t>(config.mlp_ratio * static_cast<double>(in.channels));
  map = net.activation("mlp.activation", net.linear("mlp.fc1", map, inner), config.activation);
  return net.add("mlp_residual", attended, net.linear("mlp.fc2", map, in.channels));
}

// Four neighbours become one position of twice the channels.
Map merge_patches(MapEmitter& net, const std::string& path, const Map& in) {
  Map merged{in.value, 4 * in.channels, (in.height + 1) / 2, (in.width + 1) / 2};
  merged = net.layer_norm(path + ".norm", merged);
  return net.linear(path + ".reduction", merged, 2 * in.channels, false);
}

Map emit_swin(MapEmitter& net, const Swin& config) {
  Map map = net.conv("swin.embeddings.patch_embeddings.projection", config.image,
                     {config.width, config.patch, config.patch});
  map = net.layer_norm("swin.embeddings.norm", map);
  if (config.positions) {
    net.parameters(map.positions() * map.channels);
    map = net.activation("swin.embeddings.add_positions", map, "add");
  }
  for (std::size_t stage = 0; stage < config.depths.size(); ++stage) {
    const std::string path = fmt::format("swin.encoder.layers.{}", stage);
    net.enter(path + ".blocks", 0, config.depths[stage]);
    map = swin_block(net, config, map, config.heads[stage]);
    net.leave();
    if (stage + 1 < config.depths.size()) map = merge_patches(net, path + ".downsample", map);
  }
  return net.mean("swin.pooler", net.layer_norm("swin.layernorm", map));
}

Model swin(const Config& config, const Request& request) {
  Model model;
  Swin net;
  net.image = read_image(config, request, 224, model);
  net.patch = config.size_or({"patch_size"}, 4);
  net.width = config.size_or({"embed_dim"}, 96);
  net.window = config.size_or({"window_size"}, 7);
  net.depths = sizes_or(config, "depths", {2, 2, 6, 2});
  net.heads = sizes_or(config, "num_heads", {3, 6, 12, 24});
  net.mlp_ratio = config.number("mlp_ratio").value_or(4.0);
  net.qkv_bias = config.flag("qkv_bias", true);
  net.positions = config.flag("use_absolute_embeddings", false);
  net.activation = read_activation(config, {"hidden_act"}, "gelu");
  if (!is_list_of(config, "depths", net.depths, net.heads.size(), kMaxBlocksOfStage) ||
      !is_list_of(config, "num_heads", net.heads, net.depths.size(), kMaxWidth)) {
    return {};
  }
  if (net.width > kMaxWidth || net.window > 4096 || !(net.mlp_ratio > 0.0) ||
      net.mlp_ratio > 64.0) {
    config.set_error("embed_dim, window_size or mlp_ratio is out of range");
    return {};
  }
  std::int64_t width = net.width;
  for (std::size_t stage = 0; stage < net.heads.size(); ++stage) {
    width = net.width << stage;
    config.divide("embed_dim", width, "num_heads", net.heads[stage]);
  }
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_swin(out, net); }, model);
  add_image_classifier(config, request, width, model);
  return model;
}

// ---- SegFormer

struct SegFormer {
  Map image;
  Stages stages;
  std::vector<std::int64_t> reductions, patches, strides, heads, ratios;
  std::int64_t decoder = 256, labels = 0;  // labels 0: no segmentation head
  std::string activation;
};

Map segformer_block(MapEmitter& net, const SegFormer& config, std::size_t stage, const Map& in) {
  const std::int64_t width = in.channels, reduction = config.reductions[stage];
  const Map normed = net.layer_norm("layernorm_before", in);
  Map reduced = normed;
  if (reduction > 1) {
    reduced = net.conv("attention.sequence_reduction.sequence_reduction", normed,
                       {width, reduction, reduction});
    reduced = net.layer_norm("attention.sequence_reduction.layer_norm", reduced);
  }
  const Map q = net.linear("attention.q_proj", normed, width);
  const Map k = net.linear("attention.k_proj", reduced, width);
  const Map v = net.linear("attention.v_proj", reduced, width);
  Map map = net.attention("attention.attention", q, k, v, {config.heads[stage]});
  const Map attended =
      net.add("attention_residual", in, net.linear("attention.o_proj", map, width));
  const std::int64_t inner = width * config.ratios[stage];
  map = net.linear("mlp.fc1", net.layer_norm("layernorm_after", attended), inner);
  map = net.conv("mlp.dwconv.dwconv", map, {inner, 3, 1, 1, inner});
  map = net.linear("mlp.fc2", net.activation("mlp.activation", map, config.activation), width);
  return net.add("mlp_residual", attended, map);
}

// All stages at the width of the decoder and the size of the first, then one product over both.
Map segmentation_head(MapEmitter& net, const SegFormer& config, const std::vector<Map>& stages) {
  Map all;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Map map = net.linear(fmt::format("decode_head.linear_c.{}.proj", stage), stages[stage],
                         config.decoder);
    map.height = stages.front().height;
    map.width = stages.front().width;
    if (stage > 0) {
      map = net.activation(fmt::format("decode_head.upsample.{}", stage), map, "upsample");
    }
    all = stage == 0 ? map : net.concatenate(all, map);
  }
  Filter fuse{config.decoder};
  fuse.bias = false;
  Map map = net.conv("decode_head.linear_fuse", all, fuse);
  map = net.batch_norm("decode_head.batch_norm", map);
  map = net.activation("decode_head.activation", map, "relu");
  return net.conv("decode_head.classifier", map, {config.labels});
}

Map emit_segformer(MapEmitter& net, const SegFormer& config) {
  Map map = config.image;
  std::vector<Map> stages;
  for (std::size_t stage = 0; stage < config.stages.size(); ++stage) {
    const std::string path = fmt::format("segformer.stages.{}", stage);
    const std::int64_t kernel = config.patches[stage];
    map = net.conv(path + ".patch_embeddings.proj", map,
                   {config.stages.widths[stage], kernel, config.strides[stage], kernel / 2});
    map = net.layer_norm(path + ".patch_embeddings.layer_norm", map);
    net.enter(path + ".blocks", 0, config.stages.depths[stage]);
    map = segformer_block(net, config, stage, map);
    net.leave();
    map = net.layer_norm(path + ".layer_norm", map);
    stages.push_back(map);
  }
  if (config.labels > 0) return segmentation_head(net, config, stages);
  return net.mean("segformer.mean", map);
}

Model segformer(const Config& config, const Request& request) {
  Model model;
  SegFormer net;
  net.image = read_image(config, request, 512, model);
  net.stages = read_stages(config, {2, 2, 2, 2}, {32, 64, 160, 256});
  net.reductions = sizes_or(config, "sr_ratios", {8, 4, 2, 1});
  net.patches = sizes_or(config, "patch_sizes", {7, 3, 3, 3});
  net.strides = sizes_or(config, "strides", {4, 2, 2, 2});
  net.heads = sizes_or(config, "num_attention_heads", {1, 2, 5, 8});
  net.ratios = sizes_or(config, "mlp_ratios", {4, 4, 4, 4});
  net.activation = read_activation(config, {"hidden_act"}, "gelu");
  net.decoder = config.size_or({"decoder_hidden_size"}, 256);
  if (request.architecture_has("SemanticSegmentation")) net.labels = read_labels(config);
  const std::size_t count = net.stages.size();
  constexpr std::int64_t kMaxPatch = 4096;
  if (count == 0 || !is_list_of(config, "sr_ratios", net.reductions, count, kMaxPatch) ||
      !is_list_of(config, "patch_sizes", net.patches, count, kMaxPatch) ||
      !is_list_of(config, "strides", net.strides, count, kMaxPatch) ||
      !is_list_of(config, "num_attention_heads", net.heads, count, kMaxPatch) ||
      !is_list_of(config, "mlp_ratios", net.ratios, count, kMaxPatch)) {
    return {};
  }
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_segformer(out, net); }, model);
  add_image_classifier(config, request, net.stages.widths.back(), model);
  return model;
}

// ---- SAM's image encoder

struct Sam {
  Map image;
  std::int64_t patch = 16, width = 768, layers = 12, heads = 12, inner = 3072, window = 14;
  std::int64_t output = 256;
  std::vector<std::int64_t> global;
  bool qkv_bias = true, positions = true, relative = true;
  std::string activation;

  bool is_global(std::int64_t layer) const {
    return window == 0 || std::find(global.begin(), global.end(), layer) != global.end();
  }
};

// A ViT layer in windows that are padded to whole ones, or over the whole map.
Map sam_layer(MapEmitter& net, const Sam& config, const Map& in, bool whole) {
  Map map = net.layer_norm("layer_norm1", in);
  const std::int64_t side = whole ? 0 : std::min({config.window, in.height, in.width});
  if (!whole) {
    map.height = multiple(in.height, side);
    map.width = multiple(in.width, side);
  }
  if (config.relative) {
    const std::int64_t rows = whole ? in.height : config.window;
    const std::int64_t columns = whole ? in.width : config.window;
    net.parameters((2 * rows + 2 * columns - 2) * (config.width / config.heads));
  }
  const std::int64_t windows = whole ? 1 : map.positions() / (side * side);
  Map qkv = net.linear("attn.qkv", map, 3 * config.width, config.qkv_bias);
  qkv.channels = config.width;
  map = net.attention("attn.attention", qkv, qkv, qkv, {config.heads, windows});
  map = net.linear("attn.proj", map, config.width);
  const Map attended = net.add("attention_residual", in, map);
  map = net.linear("mlp.lin1", net.layer_norm("layer_norm2", attended), config.inner);
  map = net.linear("mlp.lin2", net.activation("mlp.act", map, config.activation), config.width);
  return net.add("mlp_residual", attended, map);
}

Map emit_sam(MapEmitter& net, const Sam& config) {
  Map map = net.conv("vision_encoder.patch_embed.projection", config.image,
                     {config.width, config.patch, config.patch});
  if (config.positions) {
    net.parameters(map.positions() * map.channels);
    map = net.activation("vision_encoder.add_positions", map, "add");
  }
  for (std::int64_t first = 0; first < config.layers;) {
    const bool whole = config.is_global(first);
    std::int64_t next = first + 1;
    while (next < config.layers && config.is_global(next) == whole) ++next;
    net.enter("vision_encoder.layers", first, next - first);
    map = sam_layer(net, config, map, whole);
    first = next;
  }
  net.leave();
  map = net.conv("vision_encoder.neck.conv1", map, {config.output, 1, 1, 0, 1, false});
  map = net.layer_norm("vision_encoder.neck.layer_norm1", map);
  map = net.conv("vision_encoder.neck.conv2", map, {config.output, 3, 1, 1, 1, false});
  return net.layer_norm("vision_encoder.neck.layer_norm2", map);
}

Model sam(const Config& whole, const Request& request) {
  Model model;
  const auto nested = whole.child("vision_config");
  const Config& config = nested ? *nested : whole;
  Sam net;
  net.image = read_image(config, request, 1024, model);
  net.patch = config.size_or({"patch_size"}, 16);
  net.width = config.size_or({"hidden_size"}, 768);
  net.layers = config.has("num_hidden_layers") ? read_layers(config, {"num_hidden_layers"}) : 12;
  net.heads = config.size_or({"num_attention_heads"}, 12);
  const double ratio = config.number("mlp_ratio").value_or(4.0);
  net.inner = config.size_or(
      {"mlp_dim"},
      static_cast<std::int64_t>(std::clamp(ratio, 0.0, 64.0) * static_cast<double>(net.width)));
  net.window = config.count_or({"window_size"}, 14);
  net.output = config.size_or({"output_channels"}, 256);
  net.global = sizes_or(config, "global_attn_indexes", {2, 5, 8, 11});
  net.qkv_bias = config.flag("qkv_bias", true);
  net.positions = config.flag("use_abs_pos", true);
  net.relative = config.flag("use_rel_pos", true);
  net.activation = read_activation(config, {"hidden_act"}, "gelu");
  config.divide("hidden_size", net.width, "num_attention_heads", net.heads);
  if (net.width > kMaxWidth || net.inner < 1 || net.window > 4096) {
    config.set_error("hidden_size, mlp_dim or window_size is out of range");
  }
  if (config.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_sam(out, net); }, model);
  if (request.model_type == "sam") {
    model.skipped["prompt encoder and mask decoder"] += 1;
    model.notes.push_back(
        "only the image encoder is analysed: it runs once for each image; the prompt encoder and "
        "the mask decoder are left out, also of the parameters");
  }
  return model;
}

}  // namespace

FamilyList map_families() {
  return {{"resnet", resnet},
          {"convnext", convnext},
          {"convnextv2", convnext},
          {"dinov3_convnext", convnext},
          {"swin", swin},
          {"segformer", segformer},
          {"sam", sam},
          {"sam_vision_model", sam}};
}

}  // namespace rooftile::hf
