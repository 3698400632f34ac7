// What a kernel's name says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rooftile/workload/tensor.h"

namespace rooftile {

// What a kernel does, by its name. `unknown` is counted and reported, never guessed.
enum class KernelClass {
  unknown,
  gemm,
  convolution,
  attention,
  recurrent,
  normalization,
  softmax,
  elementwise,
  reduction,
  layout_conversion,
  cast,
  copy,  // device-side copies, concatenation, gather and scatter by copy
  fill,
  embedding,  // lookups in a table, their gradients
  pooling,
  optimizer,
  loss_scaling,  // unscale, check for inf
  sort,          // sort, top-k, unique, scan
  random,
  communication,
  sparse,
  indexing,  // gather, scatter, index_put: rows by an index, as tokens of experts are permuted
  quantize,  // to and from 8 bits or fewer, with the scales
  other,     // recognised, of none of these
};

// Kernels that read and write each element once or so, and that a compiler joins.
constexpr bool is_pointwise(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::normalization:
    case KernelClass::softmax:
    case KernelClass::elementwise:
    case KernelClass::reduction:
    case KernelClass::cast:
      return true;
    default:
      return false;
  }
}

enum class KernelDirection { unknown, forward, dgrad, wgrad };

// Absent or 0 where the name does not say.
struct KernelFacts {
  KernelClass kernel_class = KernelClass::unknown;
  std::string library{};       // cublas, cutlass, cudnn, triton, flash_attention, pytorch, nccl …
  int compute_capability = 0;  // 80 for sm80_ and ampere_; what the kernel was built for
  std::optional<Dtype> dtype{};  // of the operands
  std::optional<Dtype> accumulator{};
  std::optional<bool> tensor_core{};  // of matrix kernels; empty = the name does not tell
  std::int64_t tile_m = 0, tile_n = 0, tile_k = 0;
  int stages = 0;
  bool split_k = false;
  int alignment = 0;     // elements per access of the operands: align4, ldg8
  std::string layout{};  // "nn", "tn", "nt", "nhwc", "nchw"
  KernelDirection direction = KernelDirection::unknown;

  bool operator==(const KernelFacts&) const = default;
};

}  // namespace rooftile
