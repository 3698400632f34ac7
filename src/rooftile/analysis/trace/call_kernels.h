// What a trace knows of the kernels of one call: what ran, instead of what the shape suggests.
#pragma once

#include <optional>
#include <string>

#include "rooftile/workload/trace_summary.h"

namespace rooftile {

struct CallKernels {
  // Kernels that the model misjudges alike: kind and kernel, "gemm/vector", "elementwise/strided".
  std::string family;
  std::optional<Dtype> math;         // of a product, where it is not that of its operands
  bool is_vector_product = false;    // each element of the larger operand is used a few times
  bool loads_elements = false;       // … and it is loaded element by element
  bool fills_output = false;         // a kernel before the product writes the bias to its output
  bool is_flash_2 = false;           // FlashAttention-2, whatever the GPU
  bool is_memory_efficient = false;  // the attention of xFormers and PyTorch, any precision
};

// Of an operator with a neutral form and kernels.
CallKernels call_kernels(const OpUse& use);

}  // namespace rooftile
