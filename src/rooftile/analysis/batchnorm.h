// BatchNorm and the layer before it.
#pragma once

#include "rooftile/workload/graph.h"
#include "rooftile/workload/workload.h"

namespace rooftile {

// True for a BatchNorm that is the only reader of a convolution or Linear layer of its width: in
// inference it can be folded into that layer's weights.
bool folds_into_layer(const Workload& workload, const Graph& graph, std::size_t norm);

}  // namespace rooftile
