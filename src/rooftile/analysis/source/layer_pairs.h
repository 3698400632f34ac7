// Layers of training scripts that run directly one after the other.
#pragma once

#include <vector>

#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

struct LayerPair {
  const Call* first = nullptr;   // constructor of the layer
  const Call* second = nullptr;  // of the one that reads its output, and nothing else does
  // The condition under which the second one exists; null where it always does.
  const Expr* condition = nullptr;
  // The first one is there without the condition too, with something else behind it.
  bool is_shared = false;
};

// Neighbours in torch.nn.Sequential and in lists that are built up (`layers += [a, b]`,
// `layers.append(a)`, `model.add_module("a", a)`), and of layers in forward. Layers in branches
// that exclude each other are no neighbours.
std::vector<LayerPair> neighbouring_layers(const File& file);

}  // namespace rooftile::source
