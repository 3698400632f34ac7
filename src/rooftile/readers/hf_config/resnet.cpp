#include "rooftile/readers/hf_config/resnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "rooftile/readers/hf_config/decoder.h"
#include "rooftile/readers/hf_config/map_model.h"

namespace rooftile::hf {

Stages read_stages(const Config& config, std::vector<std::int64_t> depths,
                   std::vector<std::int64_t> widths) {
  Stages stages{sizes_or(config, "depths", std::move(depths)),
                sizes_or(config, "hidden_sizes", std::move(widths))};
  if (!is_list_of(config, "depths", stages.depths, stages.widths.size(), kMaxBlocksOfStage) ||
      !is_list_of(config, "hidden_sizes", stages.widths, stages.depths.size(), kMaxWidth)) {
    return {};
  }
  return stages;
}

ResNet read_resnet(const Config& config) {
  ResNet net;
  net.stem = config.size_or({"embedding_size"}, 64);
  net.stages = read_stages(config, {3, 4, 6, 3}, {256, 512, 1024, 2048});
  net.bottleneck = config.text("layer_type", "bottleneck") == "bottleneck";
  net.first_halves = config.flag("downsample_in_first_stage", false);
  net.halves_in_first = config.flag("downsample_in_bottleneck", false);
  net.activation = read_activation(config, {"hidden_act"}, "relu");
  return net;
}

namespace {

Map resnet_conv(MapEmitter& net, const ResNet& config, const std::string& name, const Map& in,
                Filter filter, const std::string& activation) {
  filter.padding = filter.kernel / 2;
  filter.bias = false;
  const Map normed = net.batch_norm(name + ".normalization",
                                    net.conv(name + ".convolution", in, filter), !config.frozen);
  return activation.empty() ? normed : net.activation(name + ".activation", normed, activation);
}

// The blocks of two layers of ResNet-D project at the start of every stage.
Map resnet_shortcut(MapEmitter& net, const ResNet& config, const Map& in, std::int64_t width,
                    std::int64_t stride, bool first_of_stage) {
  const bool changes = in.channels != width || stride != 1;
  if (!changes && !(config.of_kind_d && !config.bottleneck && first_of_stage)) return in;
  if (!config.of_kind_d || stride == 1) {
    return resnet_conv(net, config, "shortcut", in, {width, 1, stride}, "");
  }
  const Map halved = net.average_pool("shortcut.0", in, stride);
  return resnet_conv(net, config, "shortcut.1", halved, {width, 1}, "");
}

Map resnet_block(MapEmitter& net, const ResNet& config, const Map& in, std::int64_t width,
                 std::int64_t stride, bool first_of_stage) {
  Map out = in;
  if (config.bottleneck) {
    const std::int64_t narrow = std::max<std::int64_t>(1, width / 4);
    const std::int64_t first = config.halves_in_first ? stride : 1;
    out = resnet_conv(net, config, "layer.0", out, {narrow, 1, first}, config.activation);
    out = resnet_conv(net, config, "layer.1", out, {narrow, 3, stride / first}, config.activation);
    out = resnet_conv(net, config, "layer.2", out, {width, 1}, "");
  } else {
    out = resnet_conv(net, config, "layer.0", out, {width, 3, stride}, config.activation);
    out = resnet_conv(net, config, "layer.1", out, {width, 3}, "");
  }
  const Map side = resnet_shortcut(net, config, in, width, stride, first_of_stage);
  return net.activation("activation", net.add("residual", out, side), config.activation);
}

Map resnet_stem(MapEmitter& net, const ResNet& config) {
  const std::string path = config.path + ".embedder.";
  if (!config.of_kind_d) {
    const Map map = resnet_conv(net, config, path + "embedder", config.image, {config.stem, 7, 2},
                                config.activation);
    return net.max_pool(path + "pooler", map, 3, 2, 1);
  }
  const std::int64_t narrow = std::max<std::int64_t>(1, config.stem / 2);
  Map map = resnet_conv(net, config, path + "embedder.0", config.image, {narrow, 3, 2},
                        config.activation);
  map = resnet_conv(net, config, path + "embedder.1", map, {narrow, 3}, config.activation);
  map = resnet_conv(net, config, path + "embedder.2", map, {config.stem, 3}, config.activation);
  return net.max_pool(path + "pooler", map, 3, 2, 1);
}

}  // namespace

std::vector<Map> emit_resnet(MapEmitter& net, const ResNet& config) {
  Map map = resnet_stem(net, config);
  std::vector<Map> stages;
  for (std::size_t stage = 0; stage < config.stages.size(); ++stage) {
    const std::int64_t width = config.stages.widths[stage];
    const std::int64_t stride = stage > 0 || config.first_halves ? 2 : 1;
    const std::string path = fmt::format("{}.encoder.stages.{}.layers", config.path, stage);
    net.enter(path, 0, 1);
    map = resnet_block(net, config, map, width, stride, true);
    const std::int64_t rest = config.stages.depths[stage] - 1;
    if (rest > 0) {
      net.enter(path, 1, rest);
      map = resnet_block(net, config, map, width, 1, false);
    }
    net.leave();
    stages.push_back(map);
  }
  return stages;
}

}  // namespace rooftile::hf
