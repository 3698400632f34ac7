// What a trace knows of the kernels of one call: what ran, instead of what the shape suggests.
#pragma once

#include <optional>
#include <string>

#include "rooftile/analysis/tiles.h"
#include "rooftile/workload/trace_summary.h"

namespace rooftile {

struct CallKernels {
  // Kernels that the model misjudges alike: kind and kernel, "gemm/vector", "elementwise/strided".
  std::string family;
  std::optional<Dtype> math;         // of the products, where it is not that of the operands
  bool is_vector_product = false;    // each element of the larger operand is used a few times
  bool loads_elements = false;       // … and it is loaded element by element
  bool fills_output = false;         // a kernel before the product writes the bias to its output
  bool built_before_hopper = false;  // a product's kernel, by its name
  bool is_on_cuda_cores = false;     // likewise
  std::optional<Tile> tile;          // … as its name states it, where its split is known
  int split_k = 1;                   // blocks that share the k of such a tile, on CUDA cores
  int channel_step = 0;              // to which a convolution's channels are filled up; 0 = none
  bool converts_layouts = false;     // kernels around a convolution change the order of elements
  bool is_winograd = false;          // a convolution by that algorithm
  bool is_flash_2 = false;           // FlashAttention-2, whatever the GPU
  std::optional<AttentionTile> attention_tile;  // … of FlashAttention-2
  bool is_memory_efficient = false;  // the attention of xFormers and PyTorch, any precision
};

// Of an operator with a neutral form and kernels.
CallKernels call_kernels(const OpUse& use);

}  // namespace rooftile
