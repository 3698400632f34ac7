// What an operation multiplies with on a GPU, and how much of the time goes to Tensor Cores.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "rooftile/analysis/analysis.h"
#include "rooftile/analysis/time/math_unit.h"

namespace rooftile {

// The unit for the operation's precision: cuDNN's for convolutions and recurrent layers, fp32 on
// CUDA cores for operations without matrix products.
MathUnit math_unit(const Device& device, const Op& op);

// The arithmetic intensity above which the operation is math-bound on that unit; empty where the
// GPU's bandwidth is unknown and for operations that compute nothing.
std::optional<FlopPerByte> ridge(const Device& device, const Op& op);

// Whether the operation's kernels use the Tensor Cores: not those of depthwise convolutions and of
// products with a vector.
bool uses_tensor_cores(const Device& device, const Op& op);

// Share of the known time that goes to operations on Tensor Cores, of all and of each kind of
// operation ("gemm" -> 0.98); of all, what goes to those that wait for memory or for their latency.
struct TensorCoreShare {
  double all = 0, memory = 0, latency = 0;
  std::map<std::string, double> kinds;
};
TensorCoreShare tensor_core_share(const Workload& workload, const Analysis& analysis,
                                  const Device& device);

}  // namespace rooftile
