// Estimates of matrix products: precision, alignment and kernel model together.
#pragma once

#include "rooftile/analysis/time/context.h"
#include "rooftile/analysis/time/gemm_time.h"

namespace rooftile {

// How a family's products differ from a plain one.
struct ProductTraits {
  double math_efficiency = 1;  // factor on the math rate
  // Real traffic where the operands of the product do not lie in memory (implicit GEMM); of one
  // repeat.
  std::optional<double> operand_bytes, out_bytes;
  // Rows of the left operand are first scaled to fp8 from elements of this size.
  std::optional<double> quantized_from_bytes;
  const Intervals* intervals = nullptr;  // instead of the product's
  double widening = 1;                   // with `intervals`, in log
  std::optional<Tile> tile;              // of the kernel that ran
  int split_k = 1;                       // of that kernel, on CUDA cores
};

// One whole product as a layer computes it: nothing left out, merged or at a rate of its own.
bool is_plain(const MatrixProduct& product, const ProductTraits& traits);

// The least time at this rate of math and the data sheet's bandwidth.
Seconds floor_of(const GemmWork& work, FlopPerSecond rate, const Device& device);

// All of a kernel's parts, times a learned factor.
void scale_parts(GemmParts& parts, double factor);

// The product and, where the traits ask for it, the scaling kernel before it.
GemmParts product_parts(const GemmWork& work, const ProductTraits& traits,
                        const GemmConstants& constants, const Device& device);

// All repeats of the product.
TimeEstimate estimate_product(const TimeContext& context, const MatrixProduct& product,
                              const ProductTraits& traits = {});

}  // namespace rooftile
