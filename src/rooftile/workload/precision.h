// A network in another precision than its file states.
#pragma once

#include "rooftile/workload/op.h"

namespace rooftile {

// The precision of everything that is neither a matrix product nor stored in the asked one: TF32
// exists only inside GEMMs, and 8- and 4-bit GEMMs sit in a network of 16-bit activations.
Dtype activation_dtype(Dtype asked);

// Floating-point operands of the operation in `dtype`; what is quantized stays.
void run_in(Dtype dtype, Op& op);

}  // namespace rooftile
