// What the networks that a program trains are made of.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "rooftile/analysis/source/model_size.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile::source {

// The networks that training loops call with gradients and those whose parameters an optimizer
// holds, losses and frozen ones left out; with all that the given files put into them.
struct TrainedParts {
  // Whether each of them is seen. Else what is not among the parts may be one all the same.
  bool is_complete = false;
  std::unordered_set<const Call*> made;           // the calls that make the networks
  std::unordered_set<const FunctionDef*> makers;  // what stands in these is a part of one
};
const TrainedParts& trained_parts(const SourceFacts& facts, const Program& program);

// What one network is made of, trained or not; the expression is what is called.
TrainedParts parts_of(const SourceFacts& facts, const Program& program, const Expr& network);
// The name says a loss: a network whose output is compared, as a perceptual one.
bool is_named_loss(std::string_view name);

// Whether the call makes one of the networks or a layer in one.
bool is_part(const TrainedParts& parts, const Call& made);

// A layer that `find` gives of the trained networks. Where not all of these are seen, it may be one
// of another network that some program makes and nothing freezes.
struct TrainedLayer {
  SizedLayer layer;
  bool is_certain = false;
  // "the model (Conv2d of 64 to 64 channels)"; no layer is named that may belong to another.
  std::string model_text() const;
};
using FindLayer = std::optional<SizedLayer> (*)(const SourceFacts&, const Program&, const Accepts&);
std::optional<TrainedLayer> trained_layer(const SourceFacts& facts, const Program& program,
                                          FindLayer find);

}  // namespace rooftile::source
