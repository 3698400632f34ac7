// What the vision families share: patches, sizes, attention.
#pragma once

#include <string>

#include "rooftile/readers/hf_config/decoder.h"

namespace rooftile::hf {

// A square image cut into square patches, `side` of them a side.
struct Patches {
  std::int64_t image = 0, patch = 0, channels = 0, side = 0;
  std::int64_t count() const { return side * side; }
};

// `image` and `patch` are the sizes in pixels where the config states none.
Patches read_patches(const Config& config, std::int64_t image, std::int64_t patch);
// The convolution that turns patches into tokens.
Conv patch_embedding(std::string path, std::int64_t batch, const Patches& patches,
                     std::int64_t hidden, bool bias);

struct VisionSizes {
  std::int64_t hidden = 0, layers = 0, heads = 0, inner = 0;
};

VisionSizes read_vision_sizes(const Config& config, VisionSizes defaults);
SelfAttention vision_attention(const Config& config, std::int64_t hidden, std::int64_t heads,
                               bool qkv_bias);

// Three products for each object, `reads` the value they read where it is not the one before.
void add_detection_head(const std::string& path, const std::string& reads, std::int64_t hidden,
                        std::int64_t out, std::vector<Part>& parts);

// DINOv2 up to its last norm, with the patches of its images.
Tower dinov2_tower(const Config& config, const Request& request, const std::string& path);

}  // namespace rooftile::hf
