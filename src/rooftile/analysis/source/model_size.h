// How large the layers of a program are, as far as the source tells.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "rooftile/analysis/source/size_search.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct SizedLayer {
  const Call* call = nullptr;
  std::string text;  // "Conv2d of 64 to 128 channels", "torchvision.models.resnet50"
};

// Which of the calls that make layers and models count.
using Accepts = std::function<bool(const Call&)>;
inline constexpr auto kAnyCall = [](const Call&) { return true; };

// A layer or library model that is large enough for Tensor Cores to matter: a convolution
// from and to 64 channels, a Linear of 512 or more on both sides, attention or a recurrent layer of
// 512, or a model of torchvision, timm, transformers, diffusers, torch.hub and the like. Models of
// libraries come first; of layers of one type the largest.
std::optional<SizedLayer> tensor_core_sized_layer(const SourceFacts& facts, const Program& program,
                                                  const Accepts& accepts = kAnyCall);
// A model of torchvision that is picked by its name in the package; empty without one.
std::optional<SizedLayer> model_chosen_by_name(const Program& program, const Accepts& accepts);

}  // namespace rooftile::source
