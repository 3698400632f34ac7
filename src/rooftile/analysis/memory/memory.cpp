#include "rooftile/analysis/memory/memory.h"

#include <algorithm>
#include <cmath>

#include "rooftile/analysis/memory/kept_outputs.h"
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

// Of what the backward pass reads again. A compiler computes cheap operations once more; autocast
// keeps norms in fp32 and a 16-bit copy beside them, and the gradients on their way take memory
// too.
constexpr Range<double> kKeptShare{0.6, 1.0, 1.4};

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

Bytes all_kept(const Workload& workload) {
  const std::vector<Bytes> kept = kept_bytes(workload);
  Bytes sum;
  for (std::size_t i = 0; i < kept.size(); ++i) sum += kept[i] * to_double(workload.ops[i].count);
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

// Tensors as they were recorded. The allocator's segments are larger: see kFragmentation.
void add_recorded(const PassMemory& pass, MemoryEstimate& memory) {
  memory.gradients = certain(Bytes(pass.gradients));
  memory.optimizer = certain(Bytes(pass.optimizer));
  memory.activations = certain(Bytes(pass.activations));
}

// 16-bit training keeps fp32 weights, gradients and state under autocast, and all in 16 bits where
// the model itself was cast.
void add_training(const Workload& workload, const Weights& weights, MemoryEstimate& memory) {
  memory.activations = spread(all_kept(workload), kKeptShare) + loss_bytes(workload);
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

void add_inference(const Workload& workload, MemoryEstimate& memory) {
  memory.kv_cache = certain(workload.kv_cache_bytes ? Bytes(*workload.kv_cache_bytes)
                                                    : cache_that_is_read(workload));
  memory.recurrent_state = certain(Bytes(workload.recurrent_state_bytes.value_or(0)));
  memory.activations = spread(peak_live_bytes(workload, output_bytes), kLiveShare);
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
  const Bytes driver = data * kDriverShare + kDriverReserve;
  const Bytes others = device.dram_cpu_share ? data * *device.dram_cpu_share : driver;
  const Bytes left = data - others - kContext;
  return std::max(left, Bytes());
}

Range<Bytes> MemoryEstimate::total() const {
  return certain(weights) + gradients + optimizer + activations + kv_cache + recurrent_state +
         workspace;
}

Fit MemoryEstimate::fit_of(Bytes expected) const {
  if (expected > usable) return Fit::does_not_fit;
  return expected > usable * kTight ? Fit::tight : Fit::fits;
}

double MemoryEstimate::share_that_fits(Bytes constant, Bytes growing, Fit worst) const {
  const Bytes left = usable * (worst == Fit::fits ? kTight : 1) - constant;
  return growing > Bytes() ? std::max(left / growing, 0.0) : 0;
}

MemoryEstimate estimate_memory(const Workload& workload, const Device& device) {
  MemoryEstimate memory;
  const Weights weights = forward_weights(workload);
  memory.weights = weights.bytes;
  memory.usable = usable_memory(device);
  if (workload.pass_memory) {
    add_recorded(*workload.pass_memory, memory);
  } else if (workload.mode == Mode::training) {
    add_training(workload, weights, memory);
  } else {
    add_inference(workload, memory);
  }
  memory.library = cublas_workspace(device);
  memory.workspace = certain(memory.library);
  memory.workspace.low += memory.activations.low * kFragmentation.low;
  memory.workspace.expected += memory.activations.expected * kFragmentation.expected;
  memory.workspace.high += memory.activations.high * kFragmentation.high;
  return memory;
}

std::optional<std::int64_t> largest_batch(const Workload& workload, const MemoryEstimate& memory,
                                          Fit worst) {
  if (!workload.batch || memory.growing() <= Bytes()) return std::nullopt;
  const double share =
      memory.share_that_fits(memory.state() + memory.library, memory.growing(), worst);
  constexpr double kMost = 1e9;
  return static_cast<std::int64_t>(std::floor(std::min(share * to_double(*workload.batch), kMost)));
}

namespace {

// Bytes kept for the backward pass, by what keeps them.
struct Outputs {
  Bytes largest_layer;   // of the layers that repeat
  Bytes layers, inputs;  // of all that repeat: everything, and what each reads first
  Bytes outside;         // of operations that run once
  Bytes logits;          // of the output layer and what follows it
};

// Layers of one count in a row are one layer; its last output is what the next one reads.
Outputs outputs_of(const Workload& workload) {
  const std::size_t head = logits_layer(workload).value_or(workload.ops.size());
  const std::vector<Bytes> kept = kept_bytes(workload);
  Outputs sum;
  Bytes layer, before;
  std::int64_t repeats = 1;
  const auto close_layer = [&] {
    if (repeats > 1) sum.inputs += before * to_double(repeats);
    sum.largest_layer = std::max(sum.largest_layer, layer);
    layer = Bytes();
  };
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.phase != Phase::forward) continue;
    if (op.count != repeats) close_layer();
    repeats = op.count;
    before = output_bytes(op);
    if (repeats > 1) layer += kept[i];
    Bytes& whole = i >= head ? sum.logits : repeats > 1 ? sum.layers : sum.outside;
    whole += kept[i] * to_double(repeats);
  }
  close_layer();
  return sum;
}

// Of the logits, what a chunk takes: as much as the output layer's input. Source: Liger Kernel's
// fused linear cross-entropy, which makes vocabulary / hidden chunks.
std::optional<double> share_of_chunk(const Workload& workload) {
  const auto layer = logits_layer(workload);
  if (!layer) return std::nullopt;
  const auto& gemm = std::get<Gemm>(workload.ops[*layer].body);
  return to_double(gemm.k) / to_double(gemm.n);
}

}  // namespace

std::optional<Bytes> kept_activations(const Workload& workload, const Keeping& keeping) {
  if (workload.mode != Mode::training) return std::nullopt;
  const Outputs outputs = outputs_of(workload);
  const auto chunk = share_of_chunk(workload);
  if (keeping.checkpointed && outputs.layers <= Bytes()) return std::nullopt;
  if (keeping.chunked_loss && !chunk) return std::nullopt;
  const Bytes loss = outputs.logits * kKeptShare.expected + loss_bytes(workload).expected;
  const auto kept = [&](const Keeping& how) {
    const Bytes layers = how.checkpointed ? outputs.largest_layer : outputs.layers;
    return (layers + outputs.outside) * kKeptShare.expected +
           (how.checkpointed ? outputs.inputs : Bytes()) + loss * (how.chunked_loss ? *chunk : 1);
  };
  // What is left of a recorded pass is the share that is left of an estimated one.
  const Bytes all = kept({});
  if (!workload.pass_memory || all <= Bytes()) return kept(keeping);
  return Bytes(workload.pass_memory->activations) * (kept(keeping) / all);
}

}  // namespace rooftile
