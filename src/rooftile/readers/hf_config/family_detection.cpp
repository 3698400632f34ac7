// Detectors with a ResNet: DETR and RT-DETR.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"
#include "rooftile/readers/hf_config/resnet.h"
#include "rooftile/readers/hf_config/vision_parts.h"

namespace rooftile::hf {
namespace {

// ---- DETR

// The ResNet that timm's name states, "resnet50", or a backbone_config.
std::optional<ResNet> detr_backbone(const Config& config) {
  ResNet net;
  const auto nested = config.child("backbone_config");
  if (nested && nested->text("model_type") == "resnet") {
    net = read_resnet(*nested);
  } else {
    net.stem = 64;
    net.activation = "relu";
    const std::string name = (nested ? *nested : config).text("backbone", "resnet50");
    net.bottleneck = name != "resnet18" && name != "resnet34";
    net.stages.widths = net.bottleneck ? std::vector<std::int64_t>{256, 512, 1024, 2048}
                                       : std::vector<std::int64_t>{64, 128, 256, 512};
    if (name == "resnet18") net.stages.depths = {2, 2, 2, 2};
    if (name == "resnet34" || name == "resnet50") net.stages.depths = {3, 4, 6, 3};
    if (name == "resnet101") net.stages.depths = {3, 4, 23, 3};
  }
  if (net.stages.depths.empty() || config.flag("dilation", false)) {
    config.set_error("backbone: expected resnet18, resnet34, resnet50 or resnet101, not dilated");
    return std::nullopt;
  }
  net.path = "model.backbone";
  net.frozen = true;
  return net;
}

Layer detr_layer(const Config& config, std::string_view of, std::int64_t width) {
  Layer layer;
  layer.norm = kLayerNorm;
  layer.placement = Placement::post;
  layer.mixer_norm = "self_attn_layer_norm";
  layer.cross_norm = "encoder_attn_layer_norm";
  layer.feed_norm = "final_layer_norm";
  const std::string prefix(of);
  SelfAttention attention;
  attention.heads = attention.kv_heads = config.size_or({prefix + "_attention_heads"}, 8);
  attention.head_dim =
      config.divide("d_model", width, prefix + "_attention_heads", attention.heads);
  set_bias(attention, true, true);
  attention.causal = attention.rotary = false;
  layer.mixer = attention;
  if (of == "decoder") {
    attention.module = "encoder_attn";
    layer.cross = attention;
  }
  layer.feed = plain_mlp("fc1", "fc2", config.size_or({prefix + "_ffn_dim"}, 2048), true,
                         read_activation(config, {"activation_function"}, "relu"));
  return layer;
}

// DETR: a ResNet, an encoder over the positions of its last map, and a decoder of object queries.
Model detr(const Config& config, const Request& request) {
  Model model;
  std::optional<ResNet> net = detr_backbone(config);
  if (!net) return {};
  net->image = read_image(config, request, 800, model);
  const std::int64_t width = config.size_or({"d_model"}, 256);
  const std::int64_t queries = config.size_or({"num_queries"}, 100);
  constexpr std::int64_t kStride = 32;  // of a ResNet
  const auto side = [](std::int64_t pixels) { return (pixels + kStride - 1) / kStride; };
  add_map_tower(
      request,
      [net = *net, width](MapEmitter& out) {
        return out.conv("model.input_projection", emit_resnet(out, net).back(), {width});
      },
      model);
  Tower& encoder = model.towers.back();
  encoder.length = side(net->image.height) * side(net->image.width);
  const std::int64_t layers = config.size_or({"encoder_layers"}, 6),
                     decoder_layers = config.size_or({"decoder_layers"}, 6);
  if (layers > kMaxBlocksOfStage || decoder_layers > kMaxBlocksOfStage) {
    config.set_error("encoder_layers or decoder_layers is out of range");
    return {};
  }
  encoder.parts.push_back(
      Stack{"model.encoder.layers", width, repeat(detr_layer(config, "encoder", width), layers)});
  Tower decoder;
  decoder.length = queries;
  decoder.memory_length = encoder.length;
  decoder.parts.push_back(Parameters{queries * width});  // query_position_embeddings
  decoder.parts.push_back(Stack{"model.decoder.layers", width,
                                repeat(detr_layer(config, "decoder", width), decoder_layers)});
  decoder.parts.push_back(NormPart{"model.decoder.layernorm", kLayerNorm, width});
  if (request.architecture_has("ObjectDetection")) {
    decoder.parts.push_back(Projection{.path = "class_labels_classifier",
                                       .in = width,
                                       .out = read_labels(config) + 1,
                                       .bias = true,
                                       .branch = true});
    add_detection_head("bbox_predictor", "", width, 4, decoder.parts);
  } else if (request.architecture_has("Segmentation")) {
    config.set_error("the segmentation head of DETR is not modelled");
  }
  model.towers.push_back(std::move(decoder));
  model.skipped["position embeddings added in attention"] += layers + decoder_layers;
  return model;
}

// ---- RT-DETR

struct RtDetr {
  ResNet backbone;
  std::int64_t encoder_width = 256, width = 256;
  std::int64_t encoder_layers = 1, encoder_heads = 8, encoder_inner = 1024;
  std::int64_t layers = 6, heads = 8, inner = 1024, levels = 3, points = 4, queries = 300;
  std::int64_t labels = 80, rep_width = 256;
  std::string encoder_activation = "gelu", activation = "silu", decoder_activation = "relu";
  bool learned_queries = false;
};

constexpr std::size_t kRtLevels = 3;

Map conv_norm(MapEmitter& net, const std::string& name, const Map& in, Filter filter,
              const std::string& activation) {
  filter.padding = filter.kernel / 2;
  filter.bias = false;
  const Map map = net.batch_norm(name + ".norm", net.conv(name + ".conv", in, filter));
  return activation.empty() ? map : net.activation(name + ".activation", map, activation);
}

// Three pairs of a 3x3 and a 1x1 convolution on one input, beside a 1x1 convolution.
Map csp_layer(MapEmitter& net, const RtDetr& config, const std::string& path, const Map& in) {
  const std::int64_t inner = config.rep_width;
  Map map = conv_norm(net, path + ".conv1", in, {inner}, config.activation);
  for (int index = 0; index < 3; ++index) {
    const std::string block = fmt::format("{}.bottlenecks.{}", path, index);
    const Map wide = conv_norm(net, block + ".conv1", map, {inner, 3}, "");
    const Map narrow = conv_norm(net, block + ".conv2", map, {inner}, "");
    map = net.activation(block + ".activation", net.add(block + ".add", wide, narrow),
                         config.activation);
  }
  const Map beside = conv_norm(net, path + ".conv2", in, {inner}, config.activation);
  map = net.add(path + ".add", map, beside);
  if (inner == config.encoder_width) return map;
  return conv_norm(net, path + ".conv3", map, {config.encoder_width}, config.activation);
}

// Attention of all positions, or of queries, and a product, norms behind both.
Map attend_all(MapEmitter& net, const std::string& path, const Map& in, std::int64_t heads) {
  const Map q = net.linear(path + ".q_proj", in, in.channels);
  const Map k = net.linear(path + ".k_proj", in, in.channels);
  const Map v = net.linear(path + ".v_proj", in, in.channels);
  const Map attended = net.attention(path + ".attention", q, k, v, {heads});
  return net.linear(path + ".out_proj", attended, in.channels);
}

Map add_and_norm(MapEmitter& net, const std::string& name, const Map& stream, const Map& result) {
  return net.layer_norm(name, net.add(name + "_residual", stream, result));
}

Map rt_feed_forward(MapEmitter& net, const Map& in, std::int64_t inner,
                    const std::string& activation) {
  const Map hidden = net.activation("activation", net.linear("fc1", in, inner), activation);
  return add_and_norm(net, "final_layer_norm", in, net.linear("fc2", hidden, in.channels));
}

// Attention within the smallest map, then maps from coarse to fine and back.
std::vector<Map> hybrid_encoder(MapEmitter& net, const RtDetr& config, std::vector<Map> maps) {
  const std::int64_t width = config.encoder_width;
  net.enter("model.encoder.encoder.0.layers", 0, config.encoder_layers);
  Map& last = maps.back();
  last = add_and_norm(net, "self_attn_layer_norm", last,
                      attend_all(net, "self_attn", last, config.encoder_heads));
  last = rt_feed_forward(net, last, config.encoder_inner, config.encoder_activation);
  net.leave();
  const std::string path = "model.encoder.";
  for (std::size_t step = 0; step + 1 < maps.size(); ++step) {
    Map& coarse = maps[maps.size() - 1 - step];
    Map& fine = maps[maps.size() - 2 - step];
    coarse = conv_norm(net, fmt::format("{}lateral_convs.{}", path, step), coarse, {width},
                       config.activation);
    const Map larger =
        net.resize(fmt::format("{}upsample.{}", path, step), coarse, fine.height, fine.width);
    fine = csp_layer(net, config, fmt::format("{}fpn_blocks.{}", path, step),
                     net.concatenate(larger, fine));
  }
  for (std::size_t step = 0; step + 1 < maps.size(); ++step) {
    const Map smaller = conv_norm(net, fmt::format("{}downsample_convs.{}", path, step), maps[step],
                                  {width, 3, 2}, config.activation);
    maps[step + 1] = csp_layer(net, config, fmt::format("{}pan_blocks.{}", path, step),
                               net.concatenate(smaller, maps[step + 1]));
  }
  return maps;
}

Map box_mlp(MapEmitter& net, const std::string& path, Map map, std::int64_t inner, std::int64_t out,
            int products) {
  for (int index = 0; index < products; ++index) {
    const bool last = index + 1 == products;
    const std::string name = fmt::format("{}.layers.{}", path, index);
    map = net.linear(name, map, last ? out : inner);
    if (!last) map = net.activation(name + ".relu", map, "relu");
  }
  return map;
}

// Each query reads `points` places of each level: the mean of their neighbours, weighted.
Map deformable_attention(MapEmitter& net, const RtDetr& config, const Map& queries,
                         const Map& memory) {
  const std::string path = "encoder_attn.";
  const std::int64_t places = config.heads * config.levels * config.points;
  const Map value = net.linear(path + "value_proj", memory, config.width);
  net.linear(path + "sampling_offsets", queries, 2 * places);
  net.linear(path + "attention_weights", queries, places);
  Map read = queries;
  read.value = value.value;
  read.channels = config.width * config.levels * config.points;
  read = net.activation(path + "sample", read, "grid_sample");
  read = net.activation(path + "weigh", read, "mul");
  read.channels = config.width;
  return net.linear(path + "output_proj", read, config.width);
}

Map emit_rt_detr(MapEmitter& net, const RtDetr& config) {
  std::vector<Map> maps = emit_resnet(net, config.backbone);
  maps.erase(maps.begin(), maps.end() - static_cast<std::ptrdiff_t>(kRtLevels));
  for (std::size_t level = 0; level < maps.size(); ++level) {
    maps[level] = conv_norm(net, fmt::format("model.encoder_input_proj.{}", level), maps[level],
                            {config.encoder_width}, "");
  }
  maps = hybrid_encoder(net, config, std::move(maps));
  Map memory{{}, config.width, 1, 0};
  for (std::size_t level = 0; level < maps.size(); ++level) {
    const Map map = conv_norm(net, fmt::format("model.decoder_input_proj.{}", level), maps[level],
                              {config.width}, "");
    memory.value = map.value;
    memory.width += map.positions();
  }
  // Scores and boxes of all positions; the best become queries.
  const Map proposals =
      net.layer_norm("model.enc_output.1", net.linear("model.enc_output.0", memory, config.width));
  net.linear("model.enc_score_head", proposals, config.labels);
  box_mlp(net, "model.enc_bbox_head", proposals, config.width, 4, 3);
  Map queries = proposals;
  queries.width = config.queries;
  if (config.learned_queries) net.parameters(config.queries * config.width);
  // Layers share the embedding of boxes.
  net.parameters(std::int64_t{4} * 2 * config.width + 2 * config.width +
                 2 * config.width * config.width + config.width);
  net.enter("model.decoder.layers", 0, config.layers);
  queries = add_and_norm(net, "self_attn_layer_norm", queries,
                         attend_all(net, "self_attn", queries, config.heads));
  queries = add_and_norm(net, "encoder_attn_layer_norm", queries,
                         deformable_attention(net, config, queries, memory));
  queries = rt_feed_forward(net, queries, config.inner, config.decoder_activation);
  net.linear("class_embed", queries, config.labels);
  box_mlp(net, "bbox_embed", queries, config.width, 4, 3);
  return queries;
}

std::optional<ResNet> rt_detr_backbone(const Config& config) {
  const auto nested = config.child("backbone_config");
  if (nested && nested->text("model_type", "rt_detr_resnet") != "rt_detr_resnet") {
    config.set_error(fmt::format("backbone_config: found model_type {}, expected rt_detr_resnet",
                                 rooftile::quoted(nested->text("model_type"))));
    return std::nullopt;
  }
  if (!nested && !config.text("backbone").empty()) {
    config.set_error("backbone: a network of timm; expected backbone_config with rt_detr_resnet");
    return std::nullopt;
  }
  ResNet net = read_resnet(nested ? *nested : config);
  if (net.stages.size() < kRtLevels) {
    config.set_error("backbone_config: expected at least 3 stages");
    return std::nullopt;
  }
  net.path = "model.backbone.model";
  net.frozen = config.flag("freeze_backbone_batch_norms", true);
  net.of_kind_d = true;
  return net;
}

// RT-DETR and its second version, which have the same layers.
Model rt_detr(const Config& config, const Request& request) {
  Model model;
  const std::optional<ResNet> backbone = rt_detr_backbone(config);
  if (!backbone) return {};
  RtDetr net{.backbone = *backbone};
  net.backbone.image = read_image(config, request, 640, model);
  net.encoder_width = config.size_or({"encoder_hidden_dim"}, 256);
  net.width = config.size_or({"d_model"}, 256);
  net.encoder_layers = config.size_or({"encoder_layers"}, 1);
  net.encoder_heads = config.size_or({"encoder_attention_heads"}, 8);
  net.encoder_inner = config.size_or({"encoder_ffn_dim"}, 1024);
  net.layers = config.size_or({"decoder_layers"}, 6);
  net.heads = config.size_or({"decoder_attention_heads"}, 8);
  net.inner = config.size_or({"decoder_ffn_dim"}, 1024);
  net.levels = config.size_or({"num_feature_levels"}, 3);
  net.points = config.size_or({"decoder_n_points"}, 4);
  net.queries = config.size_or({"num_queries"}, 300);
  net.labels = read_labels(config);
  net.encoder_activation = read_activation(config, {"encoder_activation_function"}, "gelu");
  net.activation = read_activation(config, {"activation_function"}, "silu");
  net.decoder_activation = read_activation(config, {"decoder_activation_function"}, "relu");
  net.learned_queries = config.flag("learn_initial_query", false);
  const double expansion = std::clamp(config.number("hidden_expansion").value_or(1.0), 0.0, 64.0);
  net.rep_width = static_cast<std::int64_t>(expansion * static_cast<double>(net.encoder_width));
  config.divide("encoder_hidden_dim", net.encoder_width, "encoder_attention_heads",
                net.encoder_heads);
  config.divide("d_model", net.width, "decoder_attention_heads", net.heads);
  const bool in_range = net.rep_width >= 1 && net.encoder_width <= kMaxWidth &&
                        net.layers <= kMaxBlocksOfStage && net.levels <= kMaxBlocksOfStage &&
                        net.encoder_layers <= kMaxBlocksOfStage;
  if (!in_range || net.levels != static_cast<std::int64_t>(kRtLevels)) {
    config.set_error(
        "hidden_expansion, encoder_hidden_dim, encoder_layers, decoder_layers or "
        "num_feature_levels is out of range (3 levels are modelled)");
    return {};
  }
  if (config.has("encode_proj_layers") && config.sizes("encode_proj_layers").size() != 1) {
    config.set_error("encode_proj_layers: expected one map, others are not modelled");
    return {};
  }
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_rt_detr(out, net); }, model);
  const std::int64_t denoising = config.count_or({"num_denoising"}, 100);
  if (denoising > 0) {
    model.towers.back().parts.push_back(Parameters{(net.labels + 1) * net.width});
  }
  model.skipped["choice of queries and embedding of their boxes"] += 1;
  if (request.training && denoising > 0) {
    model.notes.push_back(
        fmt::format("the queries that training adds ({} noised boxes) are not counted", denoising));
  }
  return model;
}

}  // namespace

FamilyList detection_families() {
  return {{"detr", detr}, {"rt_detr", rt_detr}, {"rt_detr_v2", rt_detr}};
}

}  // namespace rooftile::hf
