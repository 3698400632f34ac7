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

constexpr std::size_t kMaxStages = 16;

bool is_list_of(const Config& config, std::string_view key, const std::vector<std::int64_t>& list,
                std::size_t expected, std::int64_t most) {
  bool fits = list.size() == expected && !list.empty() && list.size() <= kMaxStages;
  for (const std::int64_t size : list) fits = fits && size >= 1 && size <= most;
  if (!fits) {
    config.set_error(
        fmt::format("{}: expected {} sizes from 1 to {}, one for each stage", key, expected, most));
  }
  return fits;
}

std::vector<std::int64_t> sizes_or(const Config& config, std::string_view key,
                                   std::vector<std::int64_t> fallback) {
  std::vector<std::int64_t> found = config.sizes(key);
  return found.empty() ? fallback : found;
}

std::int64_t multiple(std::int64_t size, std::int64_t of) { return (size + of - 1) / of * of; }

std::string denoising_note(const Request& request, std::int64_t rows, std::string_view condition) {
  return fmt::format("one denoising step on latents of {0}x{0} (sample_size){1}{2}", rows,
                     condition, request.training ? "" : "; guidance doubles the batch");
}

void add_map_tower(const Request& request, EmitMap emit, Model& model) {
  Tower tower;
  tower.length = 1;
  tower.parts.push_back(
      Emission{[batch = request.batch, emit = std::move(emit)](Emitter& out, const Value&) {
        MapEmitter maps(out, batch);
        return emit(maps).value;
      }});
  model.towers.push_back(std::move(tower));
}

}  // namespace rooftile::hf
