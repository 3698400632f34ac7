#include "gpu/cuda/kernels.h"

#include <cmath>

#include "gpu/cuda/recipe.h"
#include "rooftile/base/text.h"

namespace rooftile::gpu::cuda {

Kernels::~Kernels() {
  for (const auto& [key, module] : modules_) driver_->call().module_unload(module);
}

Result<FunctionHandle> Kernels::get(const KernelLaunch& launch) {
  const std::string key = join(launch.defines, " ");
  auto found = modules_.find(key);
  if (found == modules_.end()) {
    const auto cubin = compiler_.compile(kKernelSource, compute_capability_, launch.defines);
    if (!cubin) return tl::unexpected(cubin.error());
    ModuleHandle module = nullptr;
    const auto done =
        driver_->check(driver_->call().module_load(&module, cubin->data()), "cuModuleLoadData");
    if (!done) return tl::unexpected(done.error());
    found = modules_.emplace(key, module).first;
  }
  FunctionHandle function = nullptr;
  const auto done = driver_->check(
      driver_->call().module_function(&function, found->second, launch.function.c_str()),
      "cuModuleGetFunction");
  if (!done) return tl::unexpected(done.error());
  return function;
}

Result<void> Kernels::run(const KernelLaunch& launch, FunctionHandle function,
                          std::span<const DevicePointer> buffers) const {
  std::vector<DevicePointer> pointers(buffers.begin(), buffers.end());
  std::vector<std::int64_t> sizes = launch.sizes;
  std::vector<void*> parameters;
  for (DevicePointer& pointer : pointers) parameters.push_back(&pointer);
  for (std::int64_t& size : sizes) parameters.push_back(&size);
  return driver_->check(driver_->call().launch(function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                               0, driver_->stream(), parameters.data(), nullptr),
                        "cuLaunchKernel");
}

Result<void> Kernels::fill(const KernelLaunch::Buffer& buffer, DevicePointer pointer) {
  const KernelLaunch launch = fill_launch(buffer);
  const auto function = get(launch);
  if (!function) return tl::unexpected(function.error());
  return run(launch, *function, std::span(&pointer, 1));
}

std::size_t bytes_of(const KernelLaunch::Buffer& buffer) {
  return static_cast<std::size_t>(
      std::ceil(static_cast<double>(buffer.elements) * size_in_bytes(buffer.dtype)));
}

Result<Recipe> memory_recipe(std::shared_ptr<Kernels> kernels, const Op& op) {
  const Result<KernelLaunch> launch = kernel_launch(op);
  if (!launch) return tl::unexpected(launch.error());
  const Result<FunctionHandle> function = kernels->get(*launch);
  if (!function) return tl::unexpected(function.error());
  Recipe recipe;
  recipe.buffers = launch->buffers;
  recipe.launch = [kernels = std::move(kernels), launch = *launch, function = *function](
                      std::span<const DevicePointer> buffers, DevicePointer) {
    return kernels->run(launch, function, buffers);
  };
  return recipe;
}

}  // namespace rooftile::gpu::cuda
