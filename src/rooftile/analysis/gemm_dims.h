// The three dimensions of a gemm and where each one is the length of a stored row.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rooftile/workload/op.h"

namespace rooftile {

// As in the text form: out[m,n] = x[m,k]·w[k,n].
enum class GemmDim { m, n, k };

// The dimension that is contiguous in memory; out is always n.
GemmDim row_dim_of_x(GemmLayout layout);
GemmDim row_dim_of_w(GemmLayout layout);

std::int64_t size_of(const Gemm& gemm, GemmDim dim);
// The same product with another size; strides given by the caller grow where a row gets longer.
Gemm with_size(Gemm gemm, GemmDim dim, std::int64_t size);

// tokens, out_features and in_features for a layer with weights, else m, n and k.
std::string_view dim_name(const Gemm& gemm, GemmDim dim);

// Dimensions whose size breaks the 16-byte condition for the operand that stores them as rows, in
// the order m, n, k. A size of 1 is a vector, not a misaligned matrix. In each phase the three
// tensors are the same ones, so the result holds for forward, dgrad and wgrad alike.
std::vector<GemmDim> misaligned_row_dims(const Gemm& gemm, const Dtypes& dtypes,
                                         std::int64_t bytes = 16);

}  // namespace rooftile
