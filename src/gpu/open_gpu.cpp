// Placeholder until the CUDA side below is complete.
#include "gpu/bench.h"

namespace rooftile::gpu {

Result<std::unique_ptr<Gpu>> open_gpu() { return fail("no GPU"); }

}  // namespace rooftile::gpu
