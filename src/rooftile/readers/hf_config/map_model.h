// From a function that emits a network on feature maps to the description of a model.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "rooftile/readers/hf_config/families.h"
#include "rooftile/readers/hf_config/feature_map.h"

namespace rooftile::hf {

using EmitMap = std::function<Map(MapEmitter&)>;

// Images of the config's image_size, else of `usual` pixels a side, noted. Refuses --seq.
Map read_image(const Config& config, const Request& request, std::int64_t usual, Model& model);

// Refuses --seq, which a network on images does not have.
void refuse_sequence(const Config& config, const Request& request);

inline constexpr std::int64_t kMaxBlocksOfStage = 256, kMaxWidth = 1 << 20;

// The list of sizes under the key, else `fallback`.
std::vector<std::int64_t> sizes_or(const Config& config, std::string_view key,
                                   std::vector<std::int64_t> fallback);
// Whether the list has `expected` sizes from 1 to `most`; an error otherwise.
bool is_list_of(const Config& config, std::string_view key, const std::vector<std::int64_t>& list,
                std::size_t expected, std::int64_t most);
// The next multiple of `of` from `size` on.
std::int64_t multiple(std::int64_t size, std::int64_t of);

void add_map_tower(const Request& request, EmitMap emit, Model& model);

// What one pass of a network that denoises latents of so many rows is. Only inference is guided.
std::string denoising_note(const Request& request, std::int64_t rows, std::string_view condition);

}  // namespace rooftile::hf
