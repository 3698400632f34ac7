// From a function that emits a network on feature maps to the description of a model.
#pragma once

#include <functional>

#include "rooftile/readers/hf_config/families.h"
#include "rooftile/readers/hf_config/feature_map.h"

namespace rooftile::hf {

using EmitMap = std::function<Map(MapEmitter&)>;

// Images of the config's image_size, else of `usual` pixels a side, noted. Refuses --seq.
Map read_image(const Config& config, const Request& request, std::int64_t usual, Model& model);

// Refuses --seq, which a network on images does not have.
void refuse_sequence(const Config& config, const Request& request);

void add_map_tower(const Request& request, EmitMap emit, Model& model);

}  // namespace rooftile::hf
