#include "rooftile/analysis/memory/memory.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/memory/live_tensors.h"
#include "rooftile/analysis/memory/output_bytes.h"
#include "rooftile/analysis/vocabulary.h"

namespace rooftile {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kGibibyte = 1024.0 * kMebibyte;

// What cudaMemGetInfo reports as total lies below the memory of the card. "total capacity" in
// public out-of-memory messages of PyTorch: T4 14.75 GiB, A10G 21.99, L4 22.03, RTX 4090 23.65,
// L40S 44.42, A100 79.25, H100 79.1; the line below meets them within 0.2 GiB.
constexpr Bytes kDriverReserve(0.2 * kGibibyte);
constexpr double kDriverShare = 0.009;

// Context, kernels of the libraries and NCCL-less buffers of one PyTorch process: 0.3 to 0.6 GiB in
// the "non-PyTorch memory" of the same messages.
constexpr Bytes kContext(0.5 * kGibibyte);

// The backward pass reads most outputs again, but not those of additions and of operations that a
// framework overwrites; and a softmax or a norm may keep a copy in fp32.
constexpr Range<double> kKeptShare{0.5, 0.8, 1.2};

// Inference frees what nobody reads any more. The ends: a compiler that fuses elementwise
// operations, and temporaries inside of operations.
constexpr Range<double> kLiveShare{0.6, 1.0, 1.5};

// Reserved over allocated memory of PyTorch's caching allocator, less 1: six public memory
// snapshots of language-model training lie between 0.02 and 0.16.
constexpr Range<double> kFragmentation{0.02, 0.05, 0.16};

// Of cuBLAS as PyTorch sets it up: 32 MiB from Hopper on, 8.125 MiB before.
Bytes cublas_workspace(const Device& device) {
  constexpr int kHopper = 90;
  return Bytes((device.compute_capability >= kHopper ? 32.0 : 8.125) * kMebibyte);
}

// fp32 bytes that cross-entropy holds for each logit beside the logits: none when fused; its
// log-softmax and gradient; with the fp32 copy of 16-bit logits and their 16-bit gradient.
constexpr Range<double> kLossBytesPerLogit{0, 8, 14};

// Share of the usable memory above which it is tight: what fragmentation and a longer sequence
// take.
constexpr double kTight = 0.9;

struct Weights {
  Bytes bytes;
  double elements = 0;
};

Weights forward_weights(const Workload& workload) {
  Weights sum;
  for (const Op& op : workload.ops) {
    if (op.phase != Phase::forward) continue;
    const double elements = count_parameters(op) * to_double(op.count);
    sum.elements += elements;
    sum.bytes += storage(elements, op.dtypes.weight);
  }
  // Layers that share a weight, and weights without an operation: the reader's number counts.
  if (workload.parameters && sum.elements > 0) {
    sum.bytes = sum.bytes * (to_double(*workload.parameters) / sum.elements);
    sum.elements = to_double(*workload.parameters);
  }
  if (workload.weight_bytes) sum.bytes = Bytes(*workload.weight_bytes);
  return sum;
}

double state_elements(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return 0;
    case OptimizerKind::momentum:
      return 1;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return 2;
    case OptimizerKind::adafactor:
      return 0.01;  // a row and a column for each matrix
  }
  return 2;
}

double state_elements(const Workload& workload) {
  for (const Op& op : workload.ops) {
    if (const auto* step = std::get_if<OptimizerStep>(&op.body)) return state_elements(step->fn);
  }
  return 0;
}

Range<Bytes> spread(Bytes bytes, const Range<double>& shares) {
  return {bytes * shares.low, bytes * shares.expected, bytes * shares.high};
}

Range<Bytes> certain(Bytes bytes) { return {bytes, bytes, bytes}; }

Bytes all_outputs(const Workload& workload) {
  Bytes sum;
  for (const Op& op : workload.ops) {
    if (op.phase == Phase::forward) sum += output_bytes(op) * to_double(op.count);
  }
  return sum;
}

double logits(const Op& op) {
  const auto& gemm = std::get<Gemm>(op.body);
  return to_double(gemm.m) * to_double(gemm.n) * to_double(gemm.batch);
}

Range<Bytes> loss_bytes(const Workload& workload) {
  const std::optional<std::size_t> layer = logits_layer(workload);
  if (!layer) return {};
  return spread(Bytes(logits(workload.ops[*layer])), kLossBytesPerLogit);
}

// 16-bit training keeps fp32 weights, gradients and state under autocast, and all in 16 bits where
// the model itself was cast.
void add_training(const Workload& workload, const Weights& weights, MemoryEstimate& memory) {
  memory.activations = spread(all_outputs(workload), kKeptShare) + loss_bytes(workload);
  const Bytes single = storage(weights.elements, Dtype::fp32);
  memory.gradients = {weights.bytes, single, single};
  const double state = state_elements(workload);
  const Bytes master = weights.bytes < single ? single : Bytes();
  memory.optimizer = {weights.bytes * state, single * state + master, single * state + master};
}

// Keys and values that attention reads from a cache, where no reader states its size.
Bytes cache_that_is_read(const Workload& workload) {
  Bytes sum;
  for (const Op& op : workload.ops) {
    const auto* a = std::get_if<Attention>(&op.body);
    if (a == nullptr || op.phase != Phase::forward || !reads_cache(*a)) continue;
    const double keys = to_double(a->batch) * to_double(a->kv_heads) * to_double(a->kv_len);
    sum += storage(keys * to_double(key_width(*a)), op.dtypes.weight) * to_double(op.count);
  }
  return sum;
}

// Generation needs the logits of the last position only; a plain forward pass makes all of them.
void add_inference(const Workload& workload, MemoryEstimate& memory) {
  memory.kv_cache = certain(workload.kv_cache_bytes ? Bytes(*workload.kv_cache_bytes)
                                                    : cache_that_is_read(workload));
  const Bytes whole = peak_live_bytes(workload, output_bytes);
  memory.activations = spread(whole, kLiveShare);
  const std::optional<std::size_t> layer = logits_layer(workload);
  if (!layer || !workload.kv_cache_bytes || !workload.batch) return;
  Workload generating = workload;
  auto& gemm = std::get<Gemm>(generating.ops[*layer].body);
  gemm.m = std::min(gemm.m, *workload.batch);
  const Range<Bytes> last = spread(peak_live_bytes(generating, output_bytes), kLiveShare);
  memory.activations.low = last.low;
  memory.activations.expected = last.expected;
}

}  // namespace

std::string_view to_string(Fit fit) {
  switch (fit) {
    case Fit::fits:
      return "fits";
    case Fit::tight:
      return "tight";
    case Fit::does_not_fit:
      break;
  }
  return "does_not_fit";
}

Bytes usable_memory(const Device& device) {
  const Bytes data = device.dram_size * (1 - device.dram_ecc_share.value_or(0));
  const Bytes left = data * (1 - kDriverShare) - kDriverReserve - kContext;
  return std::max(left, Bytes());
}

Range<Bytes> MemoryEstimate::total() const {
  return certain(weights) + gradients + optimizer + activations + kv_cache + workspace;
}

Fit MemoryEstimate::fit() const {
  const Bytes expected = total().expected;
  if (expected > usable) return Fit::does_not_fit;
  return expected > usable * kTight ? Fit::tight : Fit::fits;
}

MemoryEstimate estimate_memory(const Workload& workload, const Device& device) {
  MemoryEstimate memory;
  const Weights weights = forward_weights(workload);
  memory.weights = weights.bytes;
  memory.usable = usable_memory(device);
  if (workload.mode == Mode::training) {
    add_training(workload, weights, memory);
  } else {
    add_inference(workload, memory);
  }
  memory.workspace = certain(cublas_workspace(device));
  memory.workspace.low += memory.activations.low * kFragmentation.low;
  memory.workspace.expected += memory.activations.expected * kFragmentation.expected;
  memory.workspace.high += memory.activations.high * kFragmentation.high;
  return memory;
}

std::optional<std::int64_t> largest_batch(const Workload& workload, const MemoryEstimate& memory) {
  if (!workload.batch) return std::nullopt;
  const Bytes growing = memory.total().expected - memory.state();
  if (growing <= Bytes()) return std::nullopt;
  const Bytes left = memory.usable * kTight - memory.state();
  const double samples = left / growing * to_double(*workload.batch);
  constexpr double kMost = 1e9;
  return static_cast<std::int64_t>(std::floor(std::clamp(samples, 0.0, kMost)));
}

std::optional<Bytes> checkpointed_activations(const Workload& workload) {
  if (workload.mode != Mode::training) return std::nullopt;
  std::int64_t most = 1;  // repeats of the layer that repeats most
  for (const Op& op : workload.ops) {
    if (op.phase == Phase::forward) most = std::max(most, op.count);
  }
  if (most == 1) return std::nullopt;
  // Layers of one count in a row are one layer; its last output is what the next one reads.
  Bytes largest_layer, layer, outside, inputs, before;
  std::int64_t repeats = 1;
  const auto close_layer = [&] {
    if (repeats > 1) inputs += before * to_double(repeats);
    largest_layer = std::max(largest_layer, layer);
    layer = Bytes();
  };
  for (const Op& op : workload.ops) {
    if (op.phase != Phase::forward) continue;
    if (op.count != repeats) close_layer();
    repeats = op.count;
    before = output_bytes(op);
    (repeats > 1 ? layer : outside) += before;
  }
  close_layer();
  const Bytes kept = (largest_layer + outside) * kKeptShare.expected + inputs;
  return kept + loss_bytes(workload).expected;
}

}  // namespace rooftile
