// Our own kernels, compiled once per variant.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "gpu/cuda/compiler.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/kernel_source.h"

namespace rooftile::gpu::cuda {

class Kernels {
 public:
  Kernels(std::shared_ptr<Driver> driver, Compiler compiler, int compute_capability)
      : driver_(std::move(driver)),
        compiler_(std::move(compiler)),
        compute_capability_(compute_capability) {}
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Compiles where this variant is new.
  Result<FunctionHandle> get(const KernelLaunch& launch);
  // Enqueues on the driver's stream.
  Result<void> run(const KernelLaunch& launch, FunctionHandle function,
                   std::span<const DevicePointer> buffers) const;
  Result<void> fill(const KernelLaunch::Buffer& buffer, DevicePointer pointer);

  const Compiler& compiler() const { return compiler_; }

 private:
  std::shared_ptr<Driver> driver_;
  Compiler compiler_;
  int compute_capability_;
  std::map<std::string, ModuleHandle> modules_;
};

}  // namespace rooftile::gpu::cuda
