// Work and minimal traffic of an operation: what any implementation has to do.
#pragma once

#include "rooftile/base/units.h"
#include "rooftile/workload/op.h"

namespace rooftile {

// Of one run: floating-point operations (a multiply-add is 2) and the bytes of each distinct
// operand once.
struct Cost {
  Flop flop;
  Bytes bytes;

  // Flop per byte; 0 for an operation that moves nothing.
  FlopPerByte intensity() const { return bytes.value() > 0 ? flop / bytes : FlopPerByte(0); }
};

Cost count_cost(const Op& op);

// What one run reads that no kernel of the step wrote: weights, and keys and values of a cache.
// Embeddings read few rows of theirs.
Bytes count_state(const Op& op);

}  // namespace rooftile
