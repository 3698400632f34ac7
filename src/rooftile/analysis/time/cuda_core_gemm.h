// Matrix products on CUDA cores: the SGEMM kernels of cuBLAS.
#pragma once

#include <optional>

#include "rooftile/analysis/time/context.h"
#include "rooftile/analysis/time/gemm_time.h"
#include "rooftile/analysis/time/product_time.h"

namespace rooftile {

// The constants of a generation on one of its GPUs: latencies go with 1/clock, the port of an SM
// with the clock.
CudaCoreConstants scale_constants(CudaCoreConstants constants, const Device& device);

// All products of the batch; `nt` says that both operands lie along k, as in a Linear layer.
// `work.sustained_efficiency` is not read; the power limit acts by energy_per_flop.
// `tile`: of the kernel that ran, and into how many parts it split k; one that is not among the
// constants is ignored.
GemmParts cuda_core_parts(const GemmWork& work, bool nt, const CudaCoreConstants& constants,
                          const Device& device, const std::optional<Tile>& tile = {},
                          int split_k = 1);

// All repeats of the product on `unit`, which is no Tensor Core.
TimeEstimate estimate_cuda_core_product(const TimeContext& context, const MatrixProduct& product,
                                        const MathUnit& unit, const ProductTraits& traits);

}  // namespace rooftile
