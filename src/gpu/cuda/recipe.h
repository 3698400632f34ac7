// What one family of operations needs to run: its buffers and how it is launched.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/cuda/kernels.h"

namespace rooftile::gpu::cuda {

struct Recipe {
  std::vector<KernelLaunch::Buffer> buffers;  // of one set of operands
  std::size_t workspace_bytes = 0;            // shared by all sets
  // Enqueues one run on the driver's stream.
  std::function<Result<void>(std::span<const DevicePointer> buffers, DevicePointer workspace)>
      launch;
  std::string choice;  // what the library's heuristic picked; kernel names are added later
};

Result<Recipe> memory_recipe(std::shared_ptr<Kernels> kernels, const Op& op);

std::size_t bytes_of(const KernelLaunch::Buffer& buffer);

}  // namespace rooftile::gpu::cuda
