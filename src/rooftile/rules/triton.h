// GPUs that torch.compile can make kernels for.
#pragma once

#include "rooftile/hardware/device.h"

namespace rooftile {

// Its kernels are Triton's, which PyTorch refuses below compute capability 7.0
// (GPUTooOldForTriton).
inline bool runs_triton(const Device& device) { return device.compute_capability >= 70; }

}  // namespace rooftile
