// The matrix products that a layer becomes: Linear, convolution (implicit GEMM), attention and
// recurrent layers, in each phase.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rooftile/workload/op.h"

namespace rooftile {

// One operand as stored: `contiguous` elements in a row (0: it stays on chip), `leading` elements
// from row to row, and the offset of its first element from an aligned address.
struct MatrixOperand {
  std::string_view role;            // x, w, out, dout, dx, dw, q, k, scores …
  std::string_view contiguous_dim;  // the layer's name of that dimension: in_features, tokens …
  std::int64_t contiguous = 0, leading = 0, offset = 0;
  Dtype dtype = Dtype::fp32;
};

// out[m,n] = a[m,k]·b[k,n], `batch` products of one kernel, `repeats` kernels one after the other.
struct MatrixProduct {
  std::string_view part;  // "" for a layer's only product; "scores", "input", "recurrent" …
  std::int64_t m = 0, n = 0, k = 0, batch = 1, repeats = 1;
  MatrixOperand a, b, out;
  Dtype math = Dtype::fp32;
  bool implicit = false;  // a convolution: no matrix in memory has these dims
  // Share of the m·n·k multiply-adds that touch no inserted zero; below 1 for strided dgrad.
  double density = 1.0;

  Flop flop() const;  // of all batches and repeats, without the inserted zeros
};

// The only product of a Linear layer's or a batch's phase; a product of two activations has two
// gradients.
MatrixProduct gemm_product(const Op& op, const Gemm& gemm);
bool has_two_gradients(const Op& op, const Gemm& gemm);

// Empty for operations without products. Sources: NVIDIA Linear Layers and Convolutional Layers
// User's Guides.
std::vector<MatrixProduct> matrix_products(const Op& op);

}  // namespace rooftile
