#include "rooftile/analysis/trace/recomputed.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rooftile::trace {
namespace {

// Layers, which gradients of gradients do not run.
bool names_layer(std::string_view name) {
  constexpr std::array<std::string_view, 10> kLayers{
      "aten::linear",  "aten::conv1d",
      "aten::conv2d",  "aten::conv3d",
      "aten::dropout", "aten::layer_norm",
      "aten::gelu",    "aten::softmax",
      "aten::silu",    "aten::scaled_dot_product_attention"};
  return std::find(kLayers.begin(), kLayers.end(), name) != kLayers.end();
}

}  // namespace

Recomputed::Recomputed(const Timeline& timeline, const Links& links)
    : timeline_(timeline), links_(links), layers_(timeline.strings.size()) {
  for (std::uint32_t id = 0; id < layers_.size(); ++id) {
    layers_[id] = names_layer(timeline.strings[id]);
  }
}

// An operator with a sequence number builds a graph.
Recomputed::Around Recomputed::around(std::uint32_t op) const {
  Around found;
  bool builds = false;
  for (; op != kNone; op = links_.op_parent[op]) {
    if (links_.kind_of_op(timeline_, op) == RangeKind::autograd) {
      if (builds) found.node = op;
      return found;
    }
    builds = builds || timeline_.ops.sequence[op] != 0;
    found.is_layer = found.is_layer || layers_[timeline_.ops.name[op]];
  }
  return found;
}

bool Recomputed::add(std::uint32_t op) {
  const Around found = around(op);
  if (found.node != kNone && found.is_layer) nodes_.insert(found.node);
  return found.node != kNone;
}

bool Recomputed::has(std::uint32_t op) const {
  const std::uint32_t node = nodes_.empty() ? kNone : around(op).node;
  return node != kNone && nodes_.contains(node);
}

}  // namespace rooftile::trace
