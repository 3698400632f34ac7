#include "rooftile/analysis/trace/as_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/trace/call_kernels.h"
#include "rooftile/analysis/trace/corrections.h"

namespace rooftile {
namespace {

TimeEstimate with_time(TimeEstimate estimate, Seconds expected) {
  estimate.time = estimate.time * (expected / estimate.time.expected);
  return estimate;
}

std::optional<TimeEstimate> stream_time(const TimeModel& model, Bytes bytes) {
  constexpr double kMost = 1e18;  // sizes of a hostile trace
  Op op;
  op.body = Other{.fn = "stream", .flop = 0, .bytes = std::llround(std::min(bytes.value(), kMost))};
  return model.estimate(op);
}

// cuBLAS' gemmSN kernels load the larger operand element by element: recorded on A100, 91 to 95 of
// 10⁹ a second in bf16 and fp32 alike.
constexpr double kElementsPerSmClock = 0.62;

Seconds element_loads(const Device& device, const Gemm& gemm) {
  const double elements =
      to_double(gemm.batch) * to_double(gemm.k) * std::max(to_double(gemm.m), to_double(gemm.n));
  const double clock = std::max(device.boost_clock.value(), 1.0) * std::max(device.sms, 1);
  return Seconds(elements / (kElementsPerSmClock * clock));
}

// In the precision that ran. A product by a vector reads its operands once.
std::optional<TimeEstimate> product_time(const TimeModel& model, const Op& op, const Gemm& gemm,
                                         const CallKernels& call) {
  std::optional<TimeEstimate> time = model.estimate(op);
  if (call.is_vector_product) {
    time = stream_time(model, count_cost(op).bytes);
    if (time && call.loads_elements) {
      const Seconds loads = time->launch + element_loads(model.device(), gemm);
      if (loads > time->time.expected) time = with_time(*time, loads);
    }
  } else if (call.math) {
    std::optional<TimeEstimate> sum;
    for (MatrixProduct product : matrix_products(op)) {
      product.math = *call.math;
      const TimeEstimate one = model.estimate(product);
      sum = sum ? *sum + one : one;
    }
    if (sum) time = sum;
  }
  if (time && call.fills_output && gemm.bias) {
    // Written by the kernel before the product, and read by the product.
    const double outputs = to_double(gemm.batch) * to_double(gemm.m) * to_double(gemm.n);
    const auto bias = stream_time(model, 2 * storage(outputs, op.dtypes.output));
    if (bias) time = *time + *bias;
  }
  return time;
}

double rounded_up(double value, double step) { return step * std::ceil(value / step); }

// Shah et al., "FlashAttention-3", 2024: FlashAttention-2 reaches 35 % of an H100; 360 TFLOP/s were
// recorded at a head size of 128.
constexpr double kFlash2OnHopper = 0.36;
constexpr int kHopper = 90;

// Tiles of 64 query rows by 64 keys, heads padded to 32 elements. Recorded on A100: 14.4 TFLOP/s
// in fp32, 45 in bf16, padding included.
constexpr double kEfficientTile = 64, kEfficientHead = 32;
constexpr double kEfficientFp32 = 0.75;   // of the CUDA cores' peak
constexpr double kEfficient16Bit = 0.15;  // of the Tensor Cores' peak

double attention_flop(const Attention& a, double queries, double keys, double dims) {
  const double causal = a.causal && a.query_len > 1 ? 0.5 : 1;
  return 2 * causal * to_double(a.batch) * to_double(a.heads) * queries * keys * dims;
}

FlopPerSecond peak_of(const std::map<Dtype, FlopPerSecond>& peaks, Dtype dtype) {
  const auto found = peaks.find(dtype);
  return found == peaks.end() ? FlopPerSecond() : found->second;
}

std::optional<TimeEstimate> efficient_time(const TimeModel& model, const Op& op, const Attention& a,
                                           TimeEstimate estimate) {
  const Device& device = model.device();
  const bool narrow = is_16_bit_float(op.dtypes.input);
  const double tensor = kEfficient16Bit * peak_of(device.tensor_core_peak, Dtype::fp16).value();
  const double cuda = kEfficientFp32 * peak_of(device.cuda_core_peak, Dtype::fp32).value();
  const double rate = narrow && tensor > 0 ? tensor : cuda;
  if (rate <= 0 || op.phase != Phase::forward) return estimate;
  const double dims = rounded_up(to_double(a.head_dim), kEfficientHead) +
                      rounded_up(to_double(a.value_dim), kEfficientHead);
  const double flop = attention_flop(a, rounded_up(to_double(a.query_len), kEfficientTile),
                                     rounded_up(to_double(a.kv_len), kEfficientTile), dims);
  const auto moved = stream_time(model, count_cost(op).bytes);
  const double memory = moved ? moved->time.expected.value() : 0;
  const double launch = moved ? moved->launch.value() : 0;
  return with_time(estimate, Seconds(std::max(memory, launch + flop / rate)));
}

std::optional<TimeEstimate> attention_time(const TimeModel& model, const Op& op, const Attention& a,
                                           const CallKernels& call) {
  std::optional<TimeEstimate> time = model.estimate(op);
  if (!time) return time;
  if (call.is_memory_efficient) return efficient_time(model, op, a, *time);
  const double peak = peak_of(model.device().tensor_core_peak, op.dtypes.input).value();
  if (call.is_flash_2 && model.device().compute_capability >= kHopper && peak > 0) {
    const double dims = to_double(a.head_dim) + to_double(a.value_dim);
    const double flop = attention_flop(a, to_double(a.query_len), to_double(a.kv_len), dims);
    const double passes = op.phase == Phase::forward ? 1 : 2.5;  // five products for two
    const Seconds least = time->launch + Seconds(passes * flop / (kFlash2OnHopper * peak));
    if (least > time->time.expected) return with_time(*time, least);
  }
  return time;
}

std::optional<TimeEstimate> modelled_time(const TimeModel& model, const Op& op,
                                          const CallKernels& call) {
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) return product_time(model, op, *gemm, call);
  if (const auto* attention = std::get_if<Attention>(&op.body)) {
    return attention_time(model, op, *attention, call);
  }
  return model.estimate(op);
}

void correct(TimeEstimate& estimate, const std::optional<ProfileCorrection>& correction) {
  if (!correction) return;
  const Seconds expected = estimate.time.expected * correction->factor;
  estimate.time = {expected * correction->interval.low, expected,
                   expected * correction->interval.high};
}

AsRun as_run(const TimeModel& model, const Op& op, const OpUse& use) {
  AsRun run;
  const CallKernels call = call_kernels(use);
  run.time = modelled_time(model, op, call);
  if (!run.time) return run;
  run.family = call.family + (run.time->bound == Bound::latency ? "/short" : "/long");
  run.modelled = run.time->time.expected;
  correct(*run.time, profile_correction(run.family, model.device().compute_capability));
  return run;
}

Range<Seconds> widened(const Range<Seconds>& time, double in_log) {
  const Seconds expected = time.expected;
  return {expected * std::pow(time.low / expected, in_log), expected,
          expected * std::pow(time.high / expected, in_log)};
}

bool is_tiled(const Body& body) {
  return std::holds_alternative<Gemm>(body) || std::holds_alternative<Convolution>(body);
}

// Whole vectors of wide elements wait for DRAM, whose clock is its own; kernels that compute
// offsets, convert or handle elements of 16 bits are near the limit of the SMs already.
bool follows_sm_clock(const AsRun& run, const Op& op) {
  constexpr double kWide = 4;
  const bool is_stream = !is_matrix_op(op) && !std::holds_alternative<Normalization>(op.body) &&
                         !std::holds_alternative<Softmax>(op.body);
  const bool is_whole = run.family.find("/vectorized") != std::string::npos &&
                        size_in_bytes(op.dtypes.input) >= kWide;
  return run.time->bound != Bound::memory || !is_stream || !is_whole;
}

// Predicted over measured time of products and convolutions, in the middle of them: at a lower
// clock all of them take longer. tools/fit_profiles does the same.
double clock_of(const Workload& workload, const RunTimes& times) {
  constexpr std::size_t kFewest = 8;
  constexpr double kUsual = 0.7, kLowest = 0.15;  // GPUs idle at an eighth of their clock
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.ops.size(); ++i) {
    const AsRun& run = times.ops[i];
    const std::optional<Seconds>& measured = workload.ops[i].measured;
    if (!run.time || !measured || *measured <= Seconds()) continue;
    if (is_tiled(workload.ops[i].body)) ratios.push_back(run.time->time.expected / *measured);
  }
  if (ratios.size() < kFewest) return 1;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle < kUsual ? std::max(*middle, kLowest) : 1;
}

}  // namespace

RunTimes times_as_run(const Workload& workload, const TimeModel& model) {
  RunTimes times;
  if (workload.traces.empty()) return times;
  const std::vector<OpUse>& uses = workload.traces.front().ops;
  times.ops.resize(workload.ops.size());
  for (std::size_t i = 0; i < std::min(uses.size(), times.ops.size()); ++i) {
    if (!uses[i].op || uses[i].kernels.empty()) continue;
    times.ops[i] = as_run(model, workload.ops[i], uses[i]);
  }
  times.clock = clock_of(workload, times);
  if (times.clock == 1) return times;
  // A clock that is read off other kernels is known to 10 or 20 %, and kernels follow it unequally.
  constexpr double kWiderInLog = 2;
  for (std::size_t i = 0; i < times.ops.size(); ++i) {
    AsRun& run = times.ops[i];
    if (run.time && follows_sm_clock(run, workload.ops[i])) {
      run.time->time = run.time->time * (1 / times.clock);
    }
    if (run.time) run.time->time = widened(run.time->time, kWiderInLog);
  }
  return times;
}

}  // namespace rooftile
