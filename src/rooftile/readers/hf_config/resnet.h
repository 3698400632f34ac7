// ResNets, alone and as backbones of detectors.
#pragma once

#include <string>
#include <vector>

#include "rooftile/readers/hf_config/config.h"
#include "rooftile/readers/hf_config/feature_map.h"

namespace rooftile::hf {

// Lists that have one entry for each stage.
struct Stages {
  std::vector<std::int64_t> depths, widths;
  std::size_t size() const { return depths.size(); }
};

// "depths" and "hidden_sizes", else those given; none, and an error, where they do not match.
Stages read_stages(const Config& config, std::vector<std::int64_t> depths,
                   std::vector<std::int64_t> widths);

struct ResNet {
  std::string path;
  Map image;
  std::int64_t stem = 0;
  Stages stages;
  bool bottleneck = true, first_halves = false, halves_in_first = false;
  std::string activation;
  bool frozen = false;  // norms whose weights are not trained
  // ResNet-D: three narrow convolutions for the wide first one, and shortcuts that average before
  // they project.
  bool of_kind_d = false;
};

// All but path and image.
ResNet read_resnet(const Config& config);

// The maps behind its stages.
std::vector<Map> emit_resnet(MapEmitter& net, const ResNet& config);

}  // namespace rooftile::hf
