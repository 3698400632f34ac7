#include "rooftile/readers/hf_config/map_model.h"

#include <fmt/format.h>

#include <utility>

namespace rooftile::hf {

void refuse_sequence(const Config& config, const Request& request) {
  if (!request.seq) return;
  config.set_error("--seq: a network on images has no sequence length; its config sets their size");
}

Map read_image(const Config& config, const Request& request, std::int64_t usual, Model& model) {
  refuse_sequence(config, request);
  const std::vector<std::int64_t> sizes = config.sizes("image_size");
  Map image;
  image.channels = config.size_or({"num_channels"}, 3);
  image.height = sizes.empty() ? usual : sizes.front();
  image.width = sizes.empty() ? usual : sizes.back();
  if (sizes.size() > 2 || image.height < 1 || image.width < 1) {
    config.set_error("image_size: expected one positive size or two");
    image.height = image.width = 1;
  }
  if (sizes.empty()) {
    model.notes.push_back(
        fmt::format("images of {0}x{0} assumed: the config states no image_size", usual));
  }
  return image;
}

void add_map_tower(const Request& request, EmitMap emit, Model& model) {
  Tower tower;
  tower.length = 1;
  tower.parts.push_back(
      Emission{[batch = request.batch, emit = std::move(emit)](Emitter& out, const Value&) {
        MapEmitter maps(out, batch);
        Value result = emit(maps).value;
        maps.leave();
        return result;
      }});
  model.towers.push_back(std::move(tower));
}

}  // namespace rooftile::hf
