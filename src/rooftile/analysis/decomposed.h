// Normalisations and softmaxes that a graph spells out in primitive operations.
#pragma once

#include <cstdint>
#include <vector>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

struct Decomposed {
  Body replacement;              // the one operation that computes the same
  std::vector<std::size_t> ops;  // the primitives, in order
};

// Finds through the data flow: x - mean, its square's mean, a root, a division (layer norm); the
// same without the mean (RMS norm); exp, its sum, a division (softmax).
std::vector<Decomposed> find_decomposed(const Workload& workload, const Graph& graph);

}  // namespace rooftile
