// The memory-bound kernels, as CUDA C++ that is compiled on the machine that runs them.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/result.h"
#include "rooftile/workload/op.h"

namespace rooftile::gpu::cuda {

// Needs the defines of KernelLaunch.
extern const char* const kKernelSource;

// One launch of one kernel. Parameters of every kernel: pointers to the buffers in order, then
// `sizes` as 64-bit integers.
struct KernelLaunch {
  std::string function;
  std::vector<std::string> defines;  // of types and variants: one compiled module each
  unsigned blocks = 1, threads = 256;
  std::vector<std::int64_t> sizes;

  struct Buffer {
    std::int64_t elements = 0;
    Dtype dtype = Dtype::fp32;
    std::int64_t below = 0;  // above 0: row numbers below this, as int64
  };
  std::vector<Buffer> buffers;  // the last one is written
};

// How an operation runs here; an error says why it cannot. Norms other than layer and RMS,
// gradients and kinds that are not memory-bound have no kernel.
Result<KernelLaunch> kernel_launch(const Op& op);

// The kernel that fills a buffer with numbers of mixed size and sign, or with row numbers.
KernelLaunch fill_launch(const KernelLaunch::Buffer& buffer);

}  // namespace rooftile::gpu::cuda
