// Attention written as single operations: a product, a softmax over its rows, a second product.
#pragma once

#include <vector>

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// scores = q·kᵀ, weights = softmax(scores), out = weights·v, with scaling, masking, casts and
// dropout in between.
struct AttentionChain {
  std::size_t scores = 0, softmax = 0, values = 0;  // indices into Workload::ops
  std::vector<std::size_t> ops;                     // all of them, in order
  // The same work as one operation; how the products split into batch and heads is not known, so
  // all count as heads.
  Attention attention;
};

std::vector<AttentionChain> find_attention_chains(const Workload& workload, const Graph& graph);

}  // namespace rooftile
