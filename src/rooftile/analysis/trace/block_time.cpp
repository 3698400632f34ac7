#include "rooftile/analysis/trace/block_time.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "rooftile/aten/operator.h"
#include "rooftile/base/text.h"

namespace rooftile {
namespace {

double blocks_of(const KernelUse& kernel) {
  const auto& grid = kernel.launch.grid;
  return static_cast<double>(grid[0]) * grid[1] * grid[2];
}

// Division and square root are several instructions each; lerp and addcmul read two lists more.
double cost_of_step(std::string_view function) {
  constexpr double kDivision = 1.75, kTwoLists = 1.25;
  if (contains(function, "div") || contains(function, "sqrt") || contains(function, "fused")) {
    return kDivision;
  }
  return contains(function, "lerp") || contains(function, "addcmul") ? kTwoLists : 1;
}

// PyTorch's kernels over lists of tensors: a block of 512 threads takes up to 65,536 elements of
// one tensor, 2,048 at a time. Chunks of 65,536 took 8.7 to 9.2 us to add to or multiply, 11 us for
// lerp and 14 to 15.5 us to divide, on H100 NVL and B200 (nCompass-tech/ncompass, Apache-2.0;
// wbing520/ai-performance-engineering), those of 12,800 3.3 to 4.0 us on an RTX 4090 Laptop GPU.
std::optional<Seconds> of_lists(const OpUse& use, const KernelUse& kernel) {
  constexpr double kChunk = 65536, kStep = 2048;
  constexpr Seconds kTimeOfStep(2.1e-7);
  double largest = 0;
  for (const std::int64_t elements : elements_of_list(use.arguments, 0)) {
    largest = std::max(largest, to_double(elements));
  }
  const auto* body = use.op ? std::get_if<Elementwise>(&use.op->body) : nullptr;
  const double blocks = blocks_of(kernel);
  if (largest == 0 && body != nullptr && blocks > 0) largest = to_double(body->elements) / blocks;
  if (largest == 0) return std::nullopt;
  const double steps = std::ceil(std::min(largest, kChunk) / kStep);
  return kTimeOfStep * (steps * cost_of_step(use.name));
}

double threads_of_sm(const Device& device) {
  constexpr int kTuring = 75, kAmpereDesktop = 86, kAda = 89, kBlackwellDesktop = 120;
  const int capability = device.compute_capability;
  if (capability == kTuring) return 1024;
  const bool is_desktop =
      capability == kAmpereDesktop || capability == kAda || capability == kBlackwellDesktop;
  return is_desktop ? 1536 : 2048;
}

// cuDNN's batch norm that keeps a channel in the registers of its block: two sums over the block
// and what follows from them. Of 64 to 512 channels of 49 to 980 elements on T4 and P100 each round
// of blocks took 7 to 8 us (public traces of ResNet-18 and ResNet-50).
std::optional<Seconds> of_channels(const Device& device, const KernelUse& kernel) {
  constexpr double kClocksOfRound = 10000;
  const double threads = std::max<double>(kernel.launch.block[0], 1);
  const double at_once = std::max(device.sms, 1) * std::max(threads_of_sm(device) / threads, 1.0);
  const double rounds = std::ceil(blocks_of(kernel) / at_once);
  return Seconds(rounds * kClocksOfRound / std::max(device.boost_clock.value(), 1.0));
}

// The mean of the loss is one block's: each thread loads a target, and then what it points at, for
// one row after the other. 8 to 16 rows took 0.7 us each on an RTX 3060, 4 rows 0.3 us on H100 NVL.
std::optional<Seconds> of_targets(const OpUse& use, const KernelUse& kernel) {
  constexpr Seconds kTimeOfRow(5e-7);
  const double threads = std::max<double>(kernel.launch.block[0], 1);
  if (use.arguments.dims.empty() || use.arguments.dims.front().empty()) return std::nullopt;
  return kTimeOfRow * std::ceil(to_double(use.arguments.dims.front().front()) / threads);
}

}  // namespace

std::optional<Seconds> time_of_blocks(const Device& device, const OpUse& use) {
  if (use.kernels.empty()) return std::nullopt;
  const KernelUse& kernel = use.kernels.front();
  if (contains(kernel.name, "multi_tensor_apply")) return of_lists(use, kernel);
  if (contains(kernel.name, "1C11_singleread")) return of_channels(device, kernel);
  if (contains(kernel.name, "nll_loss_forward_reduce")) return of_targets(use, kernel);
  return std::nullopt;
}

}  // namespace rooftile
