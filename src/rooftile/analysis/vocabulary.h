// The embedding table and the output layer that share a vocabulary.
#pragma once

#include <cstddef>
#include <optional>

#include "rooftile/workload/workload.h"

namespace rooftile {

// True for a layer from or to a vocabulary that one of the workload's embeddings has.
bool uses_vocabulary(const Workload& workload, const Gemm& gemm);

// The layer that makes logits: the last GEMM with weights in the forward pass, where it widens to a
// vocabulary.
std::optional<std::size_t> logits_layer(const Workload& workload);

}  // namespace rooftile
