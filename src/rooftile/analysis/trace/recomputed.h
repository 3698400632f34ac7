// Forward passes that run again within the backward pass, as under checkpointing.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "rooftile/analysis/trace/links.h"

namespace rooftile::trace {

// Operators that build a graph, as only a forward pass does, within an autograd node that runs a
// layer. A gradient of gradients builds one too, but runs no layers. All operators that matter are
// added before has() is asked, as one of a node may be the layer.
class Recomputed {
 public:
  Recomputed(const Timeline& timeline, const Links& links);

  bool add(std::uint32_t op);  // whether it may be one
  bool has(std::uint32_t op) const;

 private:
  struct Around {
    std::uint32_t node = kNone;  // the autograd node around it, where a graph is built in it
    bool is_layer = false;
  };
  Around around(std::uint32_t op) const;

  const Timeline& timeline_;
  const Links& links_;
  std::vector<bool> layers_;  // by name
  std::unordered_set<std::uint32_t> nodes_;
};

}  // namespace rooftile::trace
