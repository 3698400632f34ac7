// The vision tower of a multimodal model.
#pragma once

#include "rooftile/readers/hf_config/families.h"

namespace rooftile::hf {

// Puts the tower that `vision_config` describes before the text model where its sizes are complete
// and its architecture is known; says in the notes what is left out otherwise.
void add_vision_tower(const Config& vision_config, const Request& request, Model& model);

}  // namespace rooftile::hf
