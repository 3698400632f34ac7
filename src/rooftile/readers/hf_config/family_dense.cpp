// Networks with an output for each position: SAM 2's image encoder, Depth Anything.
#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"
#include "rooftile/readers/hf_config/vision_parts.h"

namespace rooftile::hf {
namespace {

// ---- SAM 2's image encoder: Hiera, and a pyramid of its stages

struct Hiera {
  Map image;
  std::vector<std::int64_t> depths, widths, heads, windows, global, top_down;
  std::int64_t kernel = 7, stride = 4, padding = 3, pooled_stages = 3, positions = 0, output = 256;
  double mlp_ratio = 4.0;
  std::string activation;
};

// What a block of a stage does: the first one of a later stage changes the width, and pools its
// queries. A window of 0 is the whole map.
struct HieraBlock {
  std::int64_t width = 0, heads = 0, window = 0;
  bool pools = false;

  bool operator==(const HieraBlock&) const = default;
};

std::vector<HieraBlock> hiera_blocks(const Hiera& config, std::size_t stage, std::int64_t first) {
  std::vector<HieraBlock> blocks;
  for (std::int64_t index = 0; index < config.depths[stage]; ++index) {
    const bool enters = stage > 0 && index == 0;
    const bool whole = std::count(config.global.begin(), config.global.end(), first + index) > 0;
    blocks.push_back({config.widths[stage], config.heads[stage],
                      whole ? 0 : config.windows[enters ? stage - 1 : stage],
                      enters && static_cast<std::int64_t>(stage) <= config.pooled_stages});
  }
  return blocks;
}

Map hiera_block(MapEmitter& net, const Hiera& config, const HieraBlock& block, const Map& in) {
  const Map normed = net.layer_norm("layer_norm1", in);
  const auto pooled = [&](const std::string& name, const Map& map) {
    return block.pools ? net.max_pool(name, map, 2, 2, 0) : map;
  };
  Map side = in;
  if (in.channels != block.width) side = pooled("pool", net.linear("proj", normed, block.width));
  Map map = normed;
  if (block.window > 0) {
    map.height = multiple(in.height, block.window);
    map.width = multiple(in.width, block.window);
  }
  const std::int64_t windows =
      block.window > 0 ? map.positions() / (block.window * block.window) : 1;
  Map qkv = net.linear("attn.qkv", map, 3 * block.width);
  qkv.channels = block.width;
  map =
      net.attention("attn.attention", pooled("attn.q_pool", qkv), qkv, qkv, {block.heads, windows});
  map = net.linear("attn.proj", map, block.width);
  const Map attended = net.add("attention_residual", side, map);
  const auto inner = static_cast<std::int64_t>(config.mlp_ratio * static_cast<double>(block.width));
  map = net.linear("mlp.proj_in", net.layer_norm("layer_norm2", attended), inner);
  map = net.linear("mlp.proj_out", net.activation("mlp.activation", map, config.activation),
                   block.width);
  return net.add("mlp_residual", attended, map);
}

std::vector<Map> emit_hiera(MapEmitter& net, const Hiera& config) {
  const std::string path = "vision_encoder.backbone";
  Map map = net.conv(path + ".patch_embed.projection", config.image,
                     {config.widths.front(), config.kernel, config.stride, config.padding});
  net.parameters(config.positions);
  map = net.activation(path + ".add_positions", map, "add");
  std::vector<Map> stages;
  std::int64_t first = 0;
  for (std::size_t stage = 0; stage < config.depths.size(); ++stage) {
    const std::vector<HieraBlock> blocks = hiera_blocks(config, stage, first);
    for (std::size_t index = 0; index < blocks.size();) {
      std::size_t next = index + 1;
      while (next < blocks.size() && blocks[next] == blocks[index]) ++next;
      net.enter(path + ".blocks", first + static_cast<std::int64_t>(index),
                static_cast<std::int64_t>(next - index));
      map = hiera_block(net, config, blocks[index], map);
      index = next;
    }
    net.leave();
    stages.push_back(map);
    first += config.depths[stage];
  }
  return stages;
}

// From the last stage on; at the levels of top_down the level before is added.
Map emit_pyramid(MapEmitter& net, const Hiera& config, const std::vector<Map>& stages) {
  const std::size_t count = stages.size();
  Map before;
  for (std::size_t at = 0; at < count; ++at) {
    const std::size_t level = count - 1 - at;
    const std::string path = fmt::format("vision_encoder.neck.convs.{}", at);
    Map map = net.conv(path, stages[level], {config.output});
    const bool adds = std::count(config.top_down.begin(), config.top_down.end(),
                                 static_cast<std::int64_t>(level)) > 0;
    if (at > 0 && adds) {
      const Map above = net.resize(path + "_upsample", before, map.height, map.width);
      map = net.add(path + "_add", map, above);
    }
    before = map;
  }
  return before;
}

std::int64_t side_or(const Config& config, std::string_view key, std::int64_t fallback) {
  const std::vector<std::int64_t> sides = config.sizes(key);
  return sides.empty() ? fallback : sides.front();
}

Hiera read_hiera(const Config& vision, const Request& request, Model& model) {
  const auto nested = vision.child("backbone_config");
  const Config& config = nested ? *nested : vision;
  Hiera net;
  net.image = read_image(config, request, 1024, model);
  net.depths = sizes_or(config, "blocks_per_stage", {1, 2, 7, 2});
  net.widths = sizes_or(config, "embed_dim_per_stage", {96, 192, 384, 768});
  net.heads = sizes_or(config, "num_attention_heads_per_stage", {1, 2, 4, 8});
  net.windows = sizes_or(config, "window_size_per_stage", {8, 4, 14, 7});
  net.global = sizes_or(config, "global_attention_blocks", {5, 7, 9});
  net.top_down = sizes_or(vision, "fpn_top_down_levels", {2, 3});
  net.kernel = side_or(config, "patch_kernel_size", 7);
  net.stride = side_or(config, "patch_stride", 4);
  net.padding = side_or(config, "patch_padding", 3);
  net.pooled_stages = config.count_or({"num_query_pool_stages"}, 3);
  net.mlp_ratio = config.number("mlp_ratio").value_or(4.0);
  net.output = vision.size_or({"fpn_hidden_size"}, 256);
  net.activation = read_activation(config, {"hidden_act"}, "gelu");
  const std::size_t count = net.depths.size();
  constexpr std::int64_t kMaxWindow = 4096;
  if (!is_list_of(config, "blocks_per_stage", net.depths, count, kMaxBlocksOfStage) ||
      !is_list_of(config, "embed_dim_per_stage", net.widths, count, kMaxWidth) ||
      !is_list_of(config, "num_attention_heads_per_stage", net.heads, count, kMaxWidth) ||
      !is_list_of(config, "window_size_per_stage", net.windows, count, kMaxWindow)) {
    return net;
  }
  if (net.kernel < 1 || net.kernel > kMaxWindow || net.stride < 1 || net.padding > kMaxWindow ||
      !(net.mlp_ratio > 0.0) || net.mlp_ratio > 64.0 ||
      vision.size_or({"fpn_kernel_size"}, 1) != 1) {
    config.set_error("patch_kernel_size, mlp_ratio or fpn_kernel_size is out of range");
  }
  for (std::size_t stage = 0; stage < count; ++stage) {
    config.divide("embed_dim_per_stage", net.widths[stage], "num_attention_heads_per_stage",
                  net.heads[stage]);
  }
  const std::int64_t background = side_or(config, "window_positional_embedding_background_size", 7);
  if (background > kMaxWindow) config.set_error("a positional embedding is out of range");
  const std::int64_t window = net.windows.front();
  net.positions = net.widths.front() * (background * background + window * window);
  return net;
}

Model sam2(const Config& whole, const Request& request) {
  Model model;
  const auto nested = whole.child("vision_config");
  const Config& vision = nested ? *nested : whole;
  const Hiera net = read_hiera(vision, request, model);
  if (whole.error()) return {};
  add_map_tower(
      request, [net](MapEmitter& out) { return emit_pyramid(out, net, emit_hiera(out, net)); },
      model);
  if (request.model_type == "sam2") {
    model.skipped["prompt encoder and mask decoder"] += 1;
    model.notes.push_back(
        "only the image encoder is analysed: it runs once for each image; the prompt encoder and "
        "the mask decoder are left out, also of the parameters");
  }
  return model;
}

// ---- Depth Anything: DINOv2, four of its layers brought to four sizes and added up

struct DepthHead {
  std::int64_t side = 0, hidden = 0, patch = 0;
  std::vector<double> factors;
  std::vector<std::int64_t> widths;
  std::int64_t fusion = 64, head = 32;
};

Map residual_unit(MapEmitter& net, const std::string& name, const Map& in) {
  Map map = in;
  for (int index = 1; index <= 2; ++index) {
    map = net.activation(fmt::format("{}.activation{}", name, index), map, "relu");
    map = net.conv(fmt::format("{}.convolution{}", name, index), map, {in.channels, 3, 1, 1});
  }
  return net.add(name + ".residual", in, map);
}

// One of the layers at its size and width, from the patches.
Map reassemble(MapEmitter& net, const DepthHead& config, std::size_t at, const Map& patches) {
  const std::string path = fmt::format("neck.reassemble_stage.layers.{}", at);
  const Map map = net.conv(path + ".projection", patches, {config.widths[at]});
  const double factor = config.factors[at];
  Filter resize{config.widths[at]};
  if (factor > 1) {
    resize.kernel = resize.stride = static_cast<std::int64_t>(factor);
    resize.transposed = true;
  } else if (factor < 1) {
    resize.kernel = 3;
    resize.stride = static_cast<std::int64_t>(1 / factor);
    resize.padding = 1;
  }
  const Map sized = factor == 1 ? map : net.conv(path + ".resize", map, resize);
  return net.conv(fmt::format("neck.convs.{}", at), sized, {config.fusion, 3, 1, 1, 1, false});
}

Map fuse(MapEmitter& net, const std::vector<Map>& levels) {
  const std::size_t count = levels.size();
  Map fused;
  for (std::size_t at = 0; at < count; ++at) {
    const Map& level = levels[count - 1 - at];
    const std::string path = fmt::format("neck.fusion_stage.layers.{}", at);
    if (at == 0) {
      net.parameters(2 * level.channels * (9 * level.channels + 1));  // a unit without a use
      fused = level;
    } else {
      fused = net.add(path + ".add", fused, residual_unit(net, path + ".residual_layer1", level));
    }
    fused = residual_unit(net, path + ".residual_layer2", fused);
    const bool last = at + 1 == count;
    fused = last ? net.enlarge(path + ".upsample", fused)
                 : net.resize(path + ".upsample", fused, levels[count - 2 - at].height,
                              levels[count - 2 - at].width);
    fused = net.conv(path + ".projection", fused, {level.channels});
  }
  return fused;
}

Map emit_depth(MapEmitter& net, const DepthHead& config, const Value& last_layer) {
  const Map patches{last_layer, config.hidden, config.side, config.side};
  std::vector<Map> levels;
  for (std::size_t at = 0; at < config.widths.size(); ++at) {
    // The backbone's norm runs on each of the layers; the last one's is its own.
    const bool last = at + 1 == config.widths.size();
    const Map normed =
        last ? patches : net.layer_norm(fmt::format("backbone.layernorm.{}", at), patches, false);
    levels.push_back(reassemble(net, config, at, normed));
  }
  Map map = net.conv("head.conv1", fuse(net, levels), {config.fusion / 2, 3, 1, 1});
  map = net.resize("head.upsample", map, config.side * config.patch, config.side * config.patch);
  map = net.activation("head.activation1", net.conv("head.conv2", map, {config.head, 3, 1, 1}),
                       "relu");
  return net.activation("head.activation2", net.conv("head.conv3", map, {1}), "relu");
}

Model depth_anything(const Config& config, const Request& request) {
  Model model;
  refuse_sequence(config, request);
  const auto backbone = config.child("backbone_config");
  if (!backbone || backbone->text("model_type", "dinov2") != "dinov2") {
    config.set_error("backbone_config: expected a dinov2 backbone");
    return {};
  }
  DepthHead head;
  const Patches patches = read_patches(*backbone, 518, 14);
  head.side = patches.side;
  head.patch = patches.patch;
  head.hidden = config.size_or({"reassemble_hidden_size"}, 384);
  head.widths = sizes_or(config, "neck_hidden_sizes", {48, 96, 192, 384});
  head.factors = config.numbers("reassemble_factors");
  if (head.factors.empty()) head.factors = {4, 2, 1, 0.5};
  head.fusion = config.size_or({"fusion_hidden_size"}, 64);
  head.head = config.size_or({"head_hidden_size"}, 32);
  const bool usable = std::all_of(head.factors.begin(), head.factors.end(),
                                  [](double factor) { return factor >= 1.0 / 64 && factor <= 64; });
  if (!usable || head.hidden > kMaxWidth || head.fusion > kMaxWidth || head.fusion < 2 ||
      !is_list_of(config, "neck_hidden_sizes", head.widths, head.factors.size(), kMaxWidth)) {
    config.set_error("reassemble_factors or fusion_hidden_size is out of range");
    return {};
  }
  Tower tower = dinov2_tower(*backbone, request, "backbone");
  tower.parts.push_back(Emission{[batch = request.batch, head](Emitter& out, const Value& value) {
    MapEmitter maps(out, batch);
    return emit_depth(maps, head, value).value;
  }});
  model.towers.push_back(std::move(tower));
  return model;
}

}  // namespace

FamilyList dense_families() {
  return {{"sam2", sam2}, {"sam2_vision_model", sam2}, {"depth_anything", depth_anything}};
}

}  // namespace rooftile::hf
