#include "rooftile/analysis/trace/op_gain.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace rooftile {
namespace {

// What one SM holds.
struct SmLimits {
  double threads = 2048, blocks = 32, registers = 65536;
};

SmLimits limits_of(int compute_capability) {
  SmLimits limits;
  switch (compute_capability) {
    case 75:
      return {1024, 16, 65536};
    case 86:
    case 87:
      return {1536, 16, 65536};
    case 89:
    case 110:
    case 120:
    case 121:
      return {1536, 24, 65536};
    default:
      return limits;
  }
}

constexpr double kWarp = 32;
constexpr double kRegisterUnit = 256;     // registers are allocated per warp in such units
constexpr double kReservedShared = 1024;  // bytes of each block, compute capability 8.0 and on
constexpr int kReservesShared = 80;

double product_of(const std::array<std::uint32_t, 3>& extents) {
  double product = 1;
  for (const std::uint32_t extent : extents) product *= extent;
  return product;
}

double ratio(Seconds fast, Seconds slow) { return slow > Seconds(0) ? fast / slow : 1.0; }

Op large_product(Dtype dtype, std::int64_t extra) {
  constexpr std::int64_t kLarge = 4096;
  Gemm gemm{.m = kLarge, .n = kLarge, .k = kLarge};
  if (extra > 0) gemm.x_stride = gemm.w_stride = gemm.out_stride = kLarge + extra;
  Op op;
  op.body = gemm;
  op.dtypes = Dtypes(dtype);
  return op;
}

}  // namespace

bool is_recorded_on(const TraceSummary& trace, const Device& device) {
  if (!trace.device) return true;
  const TraceDevice& recorded = *trace.device;
  constexpr double kNear = 0.1;  // of the SMs: the listed one that is most alike
  const int capability = 10 * recorded.major + recorded.minor;
  const int apart = std::abs(recorded.sm_count - device.sms);
  return (recorded.sm_count == 0 || apart <= kNear * recorded.sm_count) &&
         (capability == 0 || capability == device.compute_capability);
}

std::optional<Range<Seconds>> saving_if(const TimeModel& model, const UseGroup& group,
                                        const std::function<Op(const Op&)>& change) {
  if (group.uses.empty()) return std::nullopt;
  Range<Seconds> after{};
  for (const OpUse* use : group.uses) {
    if (!use->op) return std::nullopt;
    const std::optional<TimeEstimate> estimate = model.estimate(change(*use->op));
    if (!estimate) return std::nullopt;
    after += estimate->time * (static_cast<double>(use->count) * group.window_part);
  }
  const auto saved = [&](Seconds left) { return std::max(Seconds(0), group.time - left); };
  return Range<Seconds>{saved(after.high), saved(after.expected), saved(after.low)};
}

Range<double> rate_left_by_alignment(const TimeModel& model, Dtype dtype, double bytes) {
  const auto extra = static_cast<std::int64_t>(bytes / size_in_bytes(dtype));
  const auto estimate = [&](std::int64_t more) {
    return *model.estimate(large_product(dtype, more));  // of a product there always is one
  };
  const TimeEstimate aligned = estimate(0), misaligned = estimate(std::max<std::int64_t>(1, extra));
  const Seconds before = misaligned.time.expected;
  const Range<Seconds> saving = estimate_saving(misaligned, aligned);
  return {1 - ratio(saving.high, before), 1 - ratio(saving.expected, before),
          1 - ratio(std::max(Seconds(0), saving.low), before)};
}

std::optional<BlockWaves> block_waves(const LaunchShape& launch, const Device& device) {
  const double threads = product_of(launch.block), blocks = product_of(launch.grid);
  if (threads < 1 || blocks < 1 || launch.registers == 0 || device.sms <= 0) return std::nullopt;
  const SmLimits limits = limits_of(device.compute_capability);
  const double warps = std::ceil(threads / kWarp);
  const double warp_registers = std::ceil(launch.registers * kWarp / kRegisterUnit) * kRegisterUnit;
  double per_sm = std::min({limits.blocks, std::floor(limits.threads / (warps * kWarp)),
                            std::floor(limits.registers / (warps * warp_registers))});
  if (launch.shared_bytes > 0 && device.shared_memory_per_sm) {
    const double reserved = device.compute_capability >= kReservesShared ? kReservedShared : 0;
    per_sm = std::min(per_sm, std::floor(device.shared_memory_per_sm->value() /
                                         (launch.shared_bytes + reserved)));
  }
  BlockWaves result{.blocks = blocks, .per_sm = std::max(1.0, per_sm), .waves = 0, .efficiency = 0};
  const double exact = blocks / (result.per_sm * device.sms);
  result.waves = std::ceil(exact);
  result.efficiency = exact / result.waves;
  return result;
}

}  // namespace rooftile
