// An operation in device memory, replayed as a CUDA graph.
#pragma once

#include <functional>
#include <memory>

#include "gpu/bench.h"
#include "gpu/cuda/recipe.h"

namespace rooftile::gpu::cuda {

struct Plumbing {
  std::shared_ptr<Driver> driver;
  std::shared_ptr<Kernels> kernels;
  std::size_t l2_bytes = 0;
  // Called while the GPU is busy with a replay.
  std::function<void()> while_running;
};

// How many sets of operands: as asked, or as many as exceed the L2 cache three times, at least 2
// and at most 64; never more than half of the free memory holds. 0 where not even one fits.
std::size_t operand_sets(int asked, std::size_t set_bytes, std::size_t l2_bytes,
                         std::size_t free_bytes);

// Fills the operands with numbers, warms up, and captures a graph of about 1.5 ms of runs that
// take the sets in turn.
Result<std::unique_ptr<PreparedOp>> prepare(const Plumbing& plumbing, Recipe recipe,
                                            const Rotation& rotation);

}  // namespace rooftile::gpu::cuda
