// What an operation finds in L2 where it is one of many.
#pragma once

#include "rooftile/base/units.h"

namespace rooftile {

// What one step reads that none of its kernels wrote: weights and caches, between two uses of which
// all the others pass through L2.
struct StepState {
  Bytes bytes;           // of all operations; 0: an operation by itself
  double from_dram = 0;  // least share of each operation's own that L2 cannot have kept
};

}  // namespace rooftile
