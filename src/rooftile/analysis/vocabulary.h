// The embedding table and the output layer that share a vocabulary.
#pragma once

#include <cstdint>

#include "rooftile/workload/workload.h"

namespace rooftile {

// True for a layer from or to a vocabulary that one of the workload's embeddings has.
bool uses_vocabulary(const Workload& workload, const Gemm& gemm);

}  // namespace rooftile
