// The real GPU: CUDA's libraries put together.
#include <fmt/format.h>

#include "gpu/bench.h"
#include "gpu/cuda/cublaslt.h"
#include "gpu/cuda/cudnn.h"
#include "gpu/cuda/nvml_monitor.h"
#include "gpu/cuda/prepared.h"
#include "gpu/driver_device.h"
#include "rooftile/hardware/device_file.h"

namespace rooftile::gpu {
namespace {

using cuda::DeviceAttribute;

DriverFacts facts_of(const cuda::Driver& driver, const cuda::NvmlMonitor* monitor) {
  constexpr double kKilo = 1e3;
  const auto number = [&](DeviceAttribute which) {
    return static_cast<double>(driver.attribute(which));
  };
  DriverFacts facts;
  facts.name = driver.name();
  facts.compute_capability = 10 * driver.attribute(DeviceAttribute::compute_capability_major) +
                             driver.attribute(DeviceAttribute::compute_capability_minor);
  facts.sms = driver.attribute(DeviceAttribute::multiprocessor_count);
  facts.clock = Hertz(kKilo * number(DeviceAttribute::clock_rate_khz));
  facts.memory_clock = Hertz(kKilo * number(DeviceAttribute::memory_clock_rate_khz));
  facts.memory_bus_bits = driver.attribute(DeviceAttribute::memory_bus_width_bits);
  facts.memory = Bytes(static_cast<double>(driver.memory_bytes()));
  facts.l2 = Bytes(number(DeviceAttribute::l2_cache_bytes));
  facts.shared_memory_per_sm =
      Bytes(number(DeviceAttribute::shared_memory_per_multiprocessor_bytes));
  if (monitor != nullptr) facts.power_limit = monitor->power_limit();
  return facts;
}

// The built-in description where there is one: data sheets know more than drivers, except for the
// power that this board may draw.
Result<Device> describe(const DriverFacts& facts) {
  Result<Device> known = find_device(facts.name);
  if (!known) return device_of_facts(facts);
  if (facts.power_limit) known->power_limit = facts.power_limit;
  return known;
}

class CudaGpu : public Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open();

  const Device& device() const override { return device_; }
  std::string versions() const override;
  Conditions conditions() override { return conditions_; }
  Result<std::unique_ptr<PreparedOp>> prepare(const Op& op, const Rotation& rotation) override;

 private:
  Result<cuda::Recipe> recipe(const Op& op);
  Result<cuda::Recipe> product(const Op& op);
  Result<cuda::Recipe> convolution(const Op& op);
  void watch();

  Device device_;
  std::shared_ptr<cuda::Driver> driver_;
  std::unique_ptr<cuda::NvmlMonitor> monitor_;  // null where NVML does not answer
  std::shared_ptr<cuda::Kernels> kernels_;
  // An error stays, so that the reason is told with each operation that needs the library.
  Result<std::shared_ptr<cuda::CublasLt>> cublaslt_;
  Result<std::shared_ptr<cuda::Cudnn>> cudnn_;
  Conditions conditions_;
  std::size_t looks_ = 0;
};

Result<std::unique_ptr<Gpu>> CudaGpu::open() {
  auto driver = cuda::Driver::open();
  if (!driver) return tl::unexpected(driver.error());
  auto gpu = std::make_unique<CudaGpu>();
  gpu->driver_ = *driver;
  if (auto monitor = cuda::NvmlMonitor::open(gpu->driver_->uuid())) {
    gpu->monitor_ = std::move(*monitor);
  }
  const DriverFacts facts = facts_of(*gpu->driver_, gpu->monitor_.get());
  Result<Device> device = describe(facts);
  if (!device) return tl::unexpected(device.error());
  gpu->device_ = std::move(*device);
  auto compiler = cuda::Compiler::open();
  if (!compiler) return tl::unexpected(compiler.error());
  gpu->kernels_ =
      std::make_shared<cuda::Kernels>(gpu->driver_, std::move(*compiler), facts.compute_capability);
  gpu->cublaslt_ = cuda::CublasLt::open(gpu->driver_);
  gpu->cudnn_ = cuda::Cudnn::open(gpu->driver_);
  return gpu;
}

std::string CudaGpu::versions() const {
  return fmt::format("driver: {}\ncuda: {}\nnvrtc: {}\ncublaslt: {}\ncudnn: {}",
                     monitor_ ? monitor_->driver_version() : "unknown", driver_->version(),
                     kernels_->compiler().version(), cublaslt_ ? (*cublaslt_)->version() : "none",
                     cudnn_ ? (*cudnn_)->version() : "none");
}

// Every few replays: the questions take longer than the answers change.
void CudaGpu::watch() {
  constexpr std::size_t kEvery = 5;
  if (monitor_ && looks_++ % kEvery == 0) conditions_ = monitor_->read();
}

Result<cuda::Recipe> CudaGpu::product(const Op& op) {
  if (!cublaslt_) return tl::unexpected(cublaslt_.error());
  if (op.dtypes.weight != op.dtypes.input) {
    return fail("products of two precisions are not measured");
  }
  const Result<ProductLayout> layout = product_layout(op);
  if (!layout) return tl::unexpected(layout.error());
  const std::size_t workspace = cuda::pytorch_workspace(device_.compute_capability, layout->bias);
  return cuda::product_recipe(*cublaslt_, *layout, workspace);
}

Result<cuda::Recipe> CudaGpu::convolution(const Op& op) {
  if (!cudnn_) return tl::unexpected(cudnn_.error());
  return cuda::convolution_recipe(*cudnn_, op);
}

Result<cuda::Recipe> CudaGpu::recipe(const Op& op) {
  if (std::holds_alternative<Gemm>(op.body)) return product(op);
  if (std::holds_alternative<Convolution>(op.body)) return convolution(op);
  return cuda::memory_recipe(kernels_, op);
}

Result<std::unique_ptr<PreparedOp>> CudaGpu::prepare(const Op& op, const Rotation& rotation) {
  Result<cuda::Recipe> made = recipe(op);
  if (!made) return tl::unexpected(made.error());
  const cuda::Plumbing plumbing{
      driver_, kernels_, static_cast<std::size_t>(device_.l2_size.value()), [this] { watch(); }};
  return cuda::prepare(plumbing, std::move(*made), rotation);
}

}  // namespace

Result<std::unique_ptr<Gpu>> open_gpu() { return CudaGpu::open(); }

}  // namespace rooftile::gpu
