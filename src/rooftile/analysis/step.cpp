#include "rooftile/analysis/step.h"

#include <algorithm>
#include <cmath>

namespace rooftile {
namespace {

// Python, dispatcher and driver for one operation. The ends: launches of captured C++ loops and
// PyTorch operators under autograd and autocast; NeuSight's public tables of single eager
// operations have a floor of 6 to 24 us inside networks.
constexpr Range<Seconds> kHostPerOperation{Seconds(4e-6), Seconds(8e-6), Seconds(20e-6)};

// Elements that the operation writes in the forward pass.
struct OutputElements {
  double operator()(const Gemm& g) const {
    return to_double(g.batch) * to_double(g.m) * to_double(g.n);
  }
  double operator()(const Convolution& c) const {
    return to_double(c.n) * to_double(c.k) * element_count(output_extents(c));
  }
  double operator()(const Attention& a) const {
    const double rows = to_double(a.batch) * to_double(a.heads) * to_double(a.query_len);
    return rows * to_double(a.value_dim) + (a.fused ? 0 : 2 * rows * to_double(a.kv_len));
  }
  double operator()(const Recurrent& r) const {
    // The gates of every step are kept beside the outputs.
    const double gates = r.cell == Cell::lstm ? 4 : r.cell == Cell::gru ? 3 : 1;
    return (1 + gates) * to_double(r.seq) * to_double(r.batch) * to_double(r.hidden) *
           to_double(r.layers) * to_double(r.directions);
  }
  double operator()(const Normalization& n) const { return to_double(n.rows) * to_double(n.cols); }
  double operator()(const Softmax& s) const { return to_double(s.rows) * to_double(s.cols); }
  double operator()(const Pooling& p) const {
    return to_double(p.n) * to_double(p.c) * element_count(p.output);
  }
  double operator()(const Elementwise& e) const { return to_double(e.elements); }
  double operator()(const Reduction& r) const { return to_double(r.outputs); }
  double operator()(const Embedding& e) const { return to_double(e.lookups) * to_double(e.width); }
  double operator()(const LayoutConversion& l) const { return to_double(l.elements); }
  double operator()(const Cast& c) const { return to_double(c.elements); }
  double operator()(const Collective&) const { return 0; }
  double operator()(const OptimizerStep&) const { return 0; }
  double operator()(const Other&) const { return 0; }
};

Bytes output_bytes(const Op& op) {
  return storage(std::visit(OutputElements{}, op.body), op.dtypes.output);
}

// The backward pass reads most outputs again, but not those of additions and of operations that a
// framework overwrites; and a softmax or a norm may keep a copy in fp32.
constexpr Range<double> kKeptShare{0.5, 0.8, 1.2};

struct Activations {
  Bytes all, largest;
};

Activations forward_outputs(const Workload& workload) {
  Activations sum;
  for (const Op& op : workload.ops) {
    if (op.phase != Phase::forward) continue;
    const Bytes bytes = output_bytes(op);
    sum.all += bytes * to_double(op.count);
    sum.largest = std::max(sum.largest, bytes);
  }
  return sum;
}

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

}  // namespace

HostEstimate estimate_host(const Workload& workload) {
  HostEstimate host;
  for (const Op& op : workload.ops) host.launches += to_double(op.count);
  host.time = kHostPerOperation * host.launches;
  return host;
}

MemoryEstimate estimate_memory(const Workload& workload) {
  MemoryEstimate memory;
  const Weights weights = forward_weights(workload);
  const Activations outputs = forward_outputs(workload);
  memory.weights = weights.bytes;
  if (workload.mode == Mode::inference) {
    // An operation's output beside its input, of about the same size.
    memory.activations = {outputs.largest, outputs.largest * 2, outputs.largest * 3};
    return memory;
  }
  memory.activations = {outputs.all * kKeptShare.low, outputs.all * kKeptShare.expected,
                        outputs.all * kKeptShare.high};
  // 16-bit training keeps fp32 weights, gradients and state under autocast, and all in 16 bits
  // where the model itself was cast.
  const Bytes single = storage(weights.elements, Dtype::fp32);
  memory.gradients = {weights.bytes, single, single};
  const double state = state_elements(workload);
  const Bytes master = weights.bytes < single ? single : Bytes();
  memory.optimizer = {weights.bytes * state, single * state + master, single * state + master};
  return memory;
}

}  // namespace rooftile
