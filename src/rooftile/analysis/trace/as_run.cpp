#include "rooftile/analysis/trace/as_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rooftile/analysis/alignment.h"
#include "rooftile/analysis/cost.h"
#include "rooftile/analysis/trace/block_time.h"
#include "rooftile/analysis/trace/call_kernels.h"
#include "rooftile/analysis/trace/corrections.h"
#include "rooftile/hardware/device_file.h"

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

constexpr int kAmpere = 80, kHopper = 90;

// Kernels built for Ampere or before do not use what later Tensor Cores add: there an SM does in a
// clock at most what it does on Ampere.
std::optional<TimeModel> model_of_older_kernels(const Device& device) {
  const auto ampere = find_device("a100");
  if (!ampere || device.compute_capability < kHopper) return std::nullopt;
  const double sm_clock = device.boost_clock.value() * device.sms;
  const double there = ampere->boost_clock.value() * ampere->sms;
  if (sm_clock <= 0 || there <= 0) return std::nullopt;
  Device older = device;
  older.id.clear();
  older.compute_capability = kAmpere;
  for (auto& [dtype, peak] : older.tensor_core_peak) {
    const auto known = ampere->tensor_core_peak.find(dtype);
    if (known != ampere->tensor_core_peak.end()) {
      peak = std::min(peak, known->second * (sm_clock / there));
    }
  }
  older.time_model = {};
  return TimeModel(older);
}

// Kernels that leave Tensor Cores alone multiply in fp32.
std::optional<TimeModel> model_of_cuda_cores(Device device) {
  if (!device.cuda_core_peak.contains(Dtype::fp32)) return std::nullopt;
  device.tensor_core_peak.clear();
  std::erase_if(device.cuda_core_peak, [](const auto& peak) { return peak.first != Dtype::fp32; });
  return TimeModel(device);
}

struct Models {
  const TimeModel& usual;
  std::optional<TimeModel> older_kernels = model_of_older_kernels(usual.device());
  std::optional<TimeModel> cuda_cores = model_of_cuda_cores(usual.device());
};

// By the kernel that ran, of a generation before that of the GPU. Where there are more blocks than
// SMs, several share one and hide each other's latency: only what tiles compute beyond the edges
// is sure then.
TimeEstimate older_time(const TimeModel& model, MatrixProduct product, const CallKernels& call) {
  if (!call.tile) return model.estimate(product);
  const int sms = std::max(model.device().sms, 1);
  const TileGrid grid = tile_grid(to_double(product.m), to_double(product.n),
                                  to_double(product.batch), *call.tile, sms);
  if (grid.tiles <= sms) return model.estimate(product, *call.tile);
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;  // sizes of a hostile trace
  if (product.m > kMost || product.n > kMost) return model.estimate(product);
  product.m = round_up(product.m, call.tile->rows);
  product.n = round_up(product.n, call.tile->cols);
  return model.estimate(product);
}

// Memory is that of the GPU at hand, whose L2 holds more; math and memory overlap as in the model.
TimeEstimate with_memory(TimeEstimate estimate, Seconds memory) {
  constexpr double kOverlap = 4;
  if (memory >= estimate.memory) return estimate;
  estimate.memory = memory;
  const double math = std::max(estimate.compute, estimate.power).value();
  const double both =
      std::pow(std::pow(math, kOverlap) + std::pow(memory.value(), kOverlap), 1 / kOverlap);
  return with_time(estimate, std::min(estimate.time.expected, estimate.launch + Seconds(both)));
}

bool is_by_older_kernel(const Models& models, const CallKernels& call) {
  return models.older_kernels && call.built_before_hopper && call.math != Dtype::fp32;
}

// By the kernels and in the precision that ran; empty where the operation multiplies nothing.
std::optional<TimeEstimate> sum_of_products(const Models& models, const Op& op,
                                            const CallKernels& call) {
  std::optional<TimeEstimate> sum;
  for (MatrixProduct product : matrix_products(op)) {
    if (call.math) product.math = *call.math;
    const bool is_known = call.is_on_cuda_cores && call.tile;
    TimeEstimate one = is_known ? models.usual.estimate(product, *call.tile, call.split_k)
                                : models.usual.estimate(product);
    if (is_by_older_kernel(models, call)) {
      one = with_memory(older_time(*models.older_kernels, product, call), one.memory);
    }
    sum = sum ? *sum + one : one;
  }
  return sum;
}

// Its operands are read once.
std::optional<TimeEstimate> vector_product_time(const TimeModel& model, const Op& op,
                                                const Gemm& gemm, const CallKernels& call) {
  const std::optional<TimeEstimate> time = stream_time(model, count_cost(op).bytes);
  if (!time || !call.loads_elements) return time;
  const Seconds loads = time->launch + element_loads(model.device(), gemm);
  return loads > time->time.expected ? with_time(*time, loads) : time;
}

std::optional<TimeEstimate> product_time(const Models& models, const Op& op, const Gemm& gemm,
                                         const CallKernels& call) {
  const TimeModel& model = models.usual;
  std::optional<TimeEstimate> time;
  if (call.is_vector_product) {
    time = vector_product_time(model, op, gemm, call);
  } else {
    const bool is_known = call.math || (call.is_on_cuda_cores && call.tile);
    if (is_known || is_by_older_kernel(models, call)) time = sum_of_products(models, op, call);
    if (!time) time = model.estimate(op);
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

// Scores and their gradient once more, and the three gradients: five products for two.
double passes_of(const Op& op) { return op.phase == Phase::forward ? 1 : 2.5; }

// Tiles of 64 query rows by 64 keys, heads padded to 32 elements. Recorded on A100: 14.4 TFLOP/s
// in fp32, 45 in bf16, padding included; 2.2 in fp32 on an RTX 3060, whose Tensor Cores are no
// faster than its CUDA cores. In fp32 Tensor Cores multiply three times in TF32, and CUDA cores do
// the rest.
constexpr double kEfficientTile = 64, kEfficientHead = 32;
constexpr double kEfficientFp32 = 0.75;   // of the CUDA cores' peak, without TF32
constexpr double kEfficient16Bit = 0.15;  // of the Tensor Cores' peak
constexpr double kTf32OfProduct = 3 * 1.62, kFp32OfProduct = 0.745;  // work over that of a product

FlopPerSecond peak_of(const std::map<Dtype, FlopPerSecond>& peaks, Dtype dtype) {
  const auto found = peaks.find(dtype);
  return found == peaks.end() ? FlopPerSecond() : found->second;
}

// Flop per second of memory-efficient attention.
double efficient_rate(const Device& device, Dtype dtype) {
  const double half = peak_of(device.tensor_core_peak, Dtype::fp16).value();
  if (is_16_bit_float(dtype) && half > 0) return kEfficient16Bit * half;
  const double tf32 = peak_of(device.tensor_core_peak, Dtype::tf32).value();
  const double cuda = peak_of(device.cuda_core_peak, Dtype::fp32).value();
  if (tf32 <= 0 || cuda <= 0) return kEfficientFp32 * cuda;
  return 1 / (kTf32OfProduct / tf32 + kFp32OfProduct / cuda);
}

double attention_flop(const Attention& a, double queries, double keys, double dims) {
  const double causal = a.causal && a.query_len > 1 ? 0.5 : 1;
  return 2 * causal * to_double(a.batch) * to_double(a.heads) * queries * keys * dims;
}

std::optional<TimeEstimate> efficient_time(const TimeModel& model, const Op& op, const Attention& a,
                                           TimeEstimate estimate) {
  const double rate = efficient_rate(model.device(), op.dtypes.input);
  if (rate <= 0) return estimate;
  const double dims = rounded_up(to_double(a.head_dim), kEfficientHead) +
                      rounded_up(to_double(a.value_dim), kEfficientHead);
  const double flop = attention_flop(a, rounded_up(to_double(a.query_len), kEfficientTile),
                                     rounded_up(to_double(a.kv_len), kEfficientTile), dims);
  const auto moved = stream_time(model, count_cost(op).bytes);
  const double memory = moved ? moved->time.expected.value() : 0;
  const double launch = moved ? moved->launch.value() : 0;
  return with_time(estimate, Seconds(std::max(memory, launch + passes_of(op) * flop / rate)));
}

// Shah et al., "FlashAttention-3", 2024: FlashAttention-2 reaches 35 % of an H100; 360 TFLOP/s were
// recorded at a head size of 128.
constexpr double kFlash2OnHopper = 0.36;
constexpr std::int64_t kWideHead = 128;

// FlashAttention-2 was written for Ampere; of wide heads its rate on Hopper is published. Keys are
// stored in a cache by other operations.
std::optional<TimeEstimate> attention_time(const Models& models, const Op& op, const Attention& a,
                                           const CallKernels& call) {
  const Device& device = models.usual.device();
  const bool wide = device.compute_capability == kHopper && a.head_dim >= kWideHead;
  const bool older = call.is_flash_2 && models.older_kernels && !wide;
  TimeModel model = (older ? *models.older_kernels : models.usual).without_cache_update();
  if (call.attention_tile) model = model.with_attention_tile(*call.attention_tile);
  const std::optional<TimeEstimate> time = model.estimate(op);
  if (time && call.is_memory_efficient) return efficient_time(models.usual, op, a, *time);
  const double peak = peak_of(device.tensor_core_peak, op.dtypes.input).value();
  if (!time || !call.is_flash_2 || !wide || peak <= 0) return time;
  const double dims = to_double(a.head_dim) + to_double(a.value_dim);
  const double flop = attention_flop(a, to_double(a.query_len), to_double(a.kv_len), dims);
  const Seconds least = time->launch + Seconds(passes_of(op) * flop / (kFlash2OnHopper * peak));
  return with_time(*time, std::max(least, time->time.expected));
}

// Of a kernel that fills up the few channels of each tap: with them, the product that it computes.
std::optional<Seconds> filled_up_time(const Models& models, const Op& op, const Convolution& conv,
                                      const CallKernels& call) {
  const std::int64_t channels = conv.c / std::max<std::int64_t>(conv.groups, 1);
  const auto taps = static_cast<std::int64_t>(element_count(conv.kernel));
  constexpr std::int64_t kMostTaps = 1 << 20;
  const bool fills = call.tile && call.channel_step > channels && !conv.transposed && taps >= 1 &&
                     taps < kMostTaps;
  const std::vector<MatrixProduct> products = matrix_products(op);
  if (!fills || products.size() != 1) return std::nullopt;
  MatrixProduct product = products.front();
  product.k = call.channel_step * taps;
  for (MatrixOperand* operand : {&product.a, &product.b}) {
    operand->contiguous = operand->leading = call.channel_step;
  }
  const bool older = is_by_older_kernel(models, call);
  const TimeModel& model = older ? *models.older_kernels : models.usual;
  return model.estimate(product, *call.tile).time.expected;
}

// Conversions of layouts are kernels of their own, which ran or did not.
std::optional<TimeEstimate> convolution_time(const Models& models, const Op& op,
                                             const Convolution& conv, const CallKernels& call) {
  const bool on_cuda_cores = call.math == Dtype::fp32 && models.cuda_cores;
  const TimeModel& model = on_cuda_cores ? *models.cuda_cores : models.usual;
  std::optional<TimeEstimate> time =
      call.is_winograd ? model.estimate(op) : model.without_winograd().estimate(op);
  if (!time) return time;
  Seconds kernels = time->time.expected - time->conversions.expected;
  if (const auto filled_up = filled_up_time(models, op, conv, call)) {
    kernels = std::max(kernels, *filled_up);
  }
  if (kernels <= Seconds()) return time;
  if (call.converts_layouts) return with_time(*time, kernels + time->conversions.expected);
  time->conversions = {};
  return with_time(*time, kernels);
}

bool has_kernel(const OpUse& use, std::string_view part) {
  return std::ranges::any_of(use.kernels, [&](const KernelUse& kernel) {
    return kernel.name.find(part) != std::string::npos;
  });
}

// The gradients of a layer norm are two kernels: of the input, which reads a tensor more than the
// norm itself, and of scale and shift, which frozen layers do without.
std::optional<TimeEstimate> layer_norm_time(const TimeModel& model, const Op& op,
                                            const OpUse& use) {
  const std::optional<TimeEstimate> both = model.estimate(op);
  const bool of_input = has_kernel(use, "grad_input"), of_scale = has_kernel(use, "GammaBeta");
  if (!both || op.phase == Phase::forward || of_input == of_scale) return both;
  Op norm = op;
  norm.phase = Phase::forward;
  const std::optional<TimeEstimate> forward = model.estimate(norm);
  if (!forward) return both;
  constexpr double kStreams = 3.0 / 2;
  const Seconds input = forward->launch + (forward->time.expected - forward->launch) * kStreams;
  if (of_input) return with_time(*forward, input);
  return with_time(*both, std::max(forward->launch, both->time.expected - input));
}

// cuDNN's batch norm takes a block for each channel: fewer than SMs draw less than DRAM delivers.
std::optional<TimeEstimate> batch_norm_time(const TimeModel& model, const Op& op,
                                            const OpUse& use) {
  std::optional<TimeEstimate> time = model.estimate(op);
  const auto& grid = use.kernels.front().launch.grid;
  const double blocks = static_cast<double>(grid[0]) * grid[1] * grid[2];
  const double sms = model.device().sms;
  const bool is_by_channel = use.kernels.front().name.find("1C11") != std::string::npos;
  if (!time || !is_by_channel || blocks < 1 || blocks >= sms) return time;
  const Seconds launch = std::min(time->launch, time->time.expected);
  return with_time(*time, launch + (time->time.expected - launch) * (sms / blocks));
}

// Softmax of PyTorch that keeps a row in registers or in shared memory: it is read once.
std::optional<TimeEstimate> softmax_time(const TimeModel& model, const Op& op, const OpUse& use) {
  const bool keeps_rows = has_kernel(use, "SoftMaxForwardReg") ||
                          has_kernel(use, "SoftMaxForwardSmem") ||
                          has_kernel(use, "SoftMaxBackwardSmem");
  std::optional<TimeEstimate> time = model.estimate(op);
  const auto moved = keeps_rows ? stream_time(model, count_cost(op).bytes) : std::nullopt;
  if (!time || !moved || moved->time.expected > time->time.expected) return time;
  return with_time(*time, moved->time.expected);
}

std::optional<TimeEstimate> modelled_time(const Models& models, const Op& op, const OpUse& use,
                                          const CallKernels& call) {
  if (const auto* gemm = std::get_if<Gemm>(&op.body)) return product_time(models, op, *gemm, call);
  if (const auto* attention = std::get_if<Attention>(&op.body)) {
    return attention_time(models, op, *attention, call);
  }
  if (const auto* conv = std::get_if<Convolution>(&op.body)) {
    return convolution_time(models, op, *conv, call);
  }
  if (const auto* norm = std::get_if<Normalization>(&op.body)) {
    return norm->fn == NormKind::layer ? layer_norm_time(models.usual, op, use)
                                       : batch_norm_time(models.usual, op, use);
  }
  if (std::holds_alternative<Softmax>(op.body)) return softmax_time(models.usual, op, use);
  return models.usual.estimate(op);
}

// The blocks of its kernel may take longer than its bytes.
std::optional<TimeEstimate> with_blocks(std::optional<TimeEstimate> time, const Device& device,
                                        const OpUse& use) {
  const auto blocks = time_of_blocks(device, use);
  if (!time || !blocks || time->launch + *blocks <= time->time.expected) return time;
  return with_time(*time, time->launch + *blocks);
}

void correct(TimeEstimate& estimate, const std::optional<ProfileCorrection>& correction) {
  if (!correction) return;
  const Seconds expected = estimate.time.expected * correction->factor;
  estimate.time = {expected * correction->interval.low, expected,
                   expected * correction->interval.high};
}

AsRun as_run(const Models& models, const Op& op, const OpUse& use) {
  AsRun run;
  const CallKernels call = call_kernels(use);
  run.time = with_blocks(modelled_time(models, op, use, call), models.usual.device(), use);
  if (!run.time) return run;
  run.family = call.family + (run.time->bound == Bound::latency ? "/short" : "/long");
  run.modelled = run.time->time.expected;
  run.launch = std::min(run.time->launch, run.modelled);
  correct(*run.time, profile_correction(run.family, models.usual.device().compute_capability));
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
  const bool in_vectors = run.family.find("/vectorized") != std::string::npos ||
                          run.family.find("/multi_tensor") != std::string::npos;
  const bool is_whole = in_vectors && size_in_bytes(op.dtypes.input) >= kWide;
  return run.time->bound != Bound::memory || !is_stream || !is_whole;
}

double middle_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Fewer kernels tell nothing of their trace.
constexpr std::size_t kFewest = 8;

bool was_measured(const AsRun& run, const Op& op) {
  return run.time && op.measured && *op.measured > Seconds();
}

// Predicted over measured time of kernels that follow the clock of the SMs, in the middle of them:
// at a lower clock all of them take longer. Of the traces of the fit the middle is 0.86 to 1.2, or
// 0.62 and less; GPUs idle at an eighth of their clock. tools/fit_profiles does the same.
double clock_of(const Workload& workload, const RunTimes& times) {
  constexpr double kUsual = 0.73, kLowest = 0.15;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.ops.size(); ++i) {
    const AsRun& run = times.ops[i];
    const Op& op = workload.ops[i];
    if (!was_measured(run, op) || run.time->bound == Bound::latency) continue;
    if (follows_sm_clock(run, op)) ratios.push_back(run.time->time.expected / *op.measured);
  }
  if (ratios.size() < kFewest) return 1;
  const double middle = middle_of(ratios);
  return middle < kUsual ? std::max(middle, kLowest) : 1;
}

// What a kernel takes that does next to nothing, over what the tables say, in the middle of such
// kernels: it differs by driver, by profiler and by what the kernel before left in the caches.
// tools/fit_profiles does the same.
double launch_of(const Workload& workload, const RunTimes& times) {
  constexpr double kShort = 0.8;  // of the time is launch
  constexpr double kLeast = 0.2;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.ops.size(); ++i) {
    const AsRun& run = times.ops[i];
    const Op& op = workload.ops[i];
    if (!was_measured(run, op) || is_tiled(op.body)) continue;
    if (run.launch < kShort * run.modelled) continue;
    const double factor = run.time->time.expected / run.modelled;
    const Seconds here = *op.measured * (times.clock / factor);
    ratios.push_back((here - (run.modelled - run.launch)) / run.launch);
  }
  return ratios.size() < kFewest ? 1 : std::max(middle_of(ratios), kLeast);
}

// From the usual pace to that of the trace. A clock that is read off other kernels is known to 10
// or 20 %, and kernels follow it unequally.
void set_pace(const RunTimes& times, const Op& op, AsRun& run) {
  constexpr double kWiderInLog = 1.5;
  double pace = follows_sm_clock(run, op) ? 1 / times.clock : 1;
  if (!is_tiled(op.body)) pace += (times.launch - 1) / times.clock * (run.launch / run.modelled);
  run.time->time = run.time->time * pace;
  if (times.clock != 1) run.time->time = widened(run.time->time, kWiderInLog);
}

}  // namespace

RunTimes times_as_run(const Workload& workload, const TimeModel& model) {
  RunTimes times;
  if (workload.traces.empty()) return times;
  const std::vector<OpUse>& uses = workload.traces.front().ops;
  const Models models{model};
  times.ops.resize(workload.ops.size());
  for (std::size_t i = 0; i < std::min(uses.size(), times.ops.size()); ++i) {
    if (!uses[i].op || uses[i].kernels.empty()) continue;
    times.ops[i] = as_run(models, workload.ops[i], uses[i]);
  }
  times.clock = clock_of(workload, times);
  times.launch = launch_of(workload, times);
  for (std::size_t i = 0; i < times.ops.size(); ++i) {
    if (times.ops[i].time) set_pace(times, workload.ops[i], times.ops[i]);
  }
  return times;
}

}  // namespace rooftile
