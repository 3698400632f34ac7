#include "rooftile/analysis/memory/kept_outputs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "rooftile/analysis/memory/output_bytes.h"

namespace rooftile {
namespace {

// What the gradient of an operation reads again; PyTorch, derivatives.yaml.
enum class Again { nothing, inputs, output };

// Sums and moves have gradients that need no value.
constexpr std::array<std::string_view, 22> kMoves{
    "add",   "sub",  "rsub", "neg",    "copy",    "cat",      "concatenate", "stack",
    "slice", "fill", "data", "rotary", "expand",  "pad",      "upsample",    "scale",
    "flip",  "roll", "tile", "repeat", "dropout", "identity",
};
constexpr std::array<std::string_view, 7> kOfResult{"relu", "sigmoid", "tanh",      "exp",
                                                    "sqrt", "rsqrt",   "reciprocal"};

template <std::size_t N>
bool has(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

struct ReadAgain {
  Again operator()(const Gemm&) const { return Again::inputs; }
  Again operator()(const Convolution&) const { return Again::inputs; }
  Again operator()(const Attention&) const { return Again::inputs; }
  Again operator()(const Recurrent&) const { return Again::inputs; }
  Again operator()(const Normalization&) const { return Again::inputs; }
  Again operator()(const Softmax&) const { return Again::output; }
  Again operator()(const Pooling& pool) const {
    return pool.fn == PoolKind::max ? Again::inputs : Again::nothing;
  }
  Again operator()(const Elementwise& body) const {
    if (has(kMoves, body.fn)) return Again::nothing;
    return has(kOfResult, body.fn) ? Again::output : Again::inputs;
  }
  Again operator()(const Other&) const { return Again::inputs; }
  template <class Body>
  Again operator()(const Body&) const {
    return Again::nothing;
  }
};

// Also kept by their own kernels: attention its output, recurrent layers their gates.
bool keeps_output(const Op& op) {
  return std::holds_alternative<Attention>(op.body) || std::holds_alternative<Recurrent>(op.body);
}

// Beside tensors of values: a mask of what was dropped, and where each maximum was (int64).
Bytes index_bytes(const Op& op) {
  constexpr double kIndex = 8;
  if (const auto* body = std::get_if<Elementwise>(&op.body)) {
    return body->fn == "dropout" ? Bytes(to_double(body->elements)) : Bytes();
  }
  const auto* pool = std::get_if<Pooling>(&op.body);
  if (pool == nullptr || pool->fn != PoolKind::max) return Bytes();
  return Bytes(kIndex * to_double(pool->n) * to_double(pool->c) * element_count(pool->output));
}

}  // namespace

std::vector<Bytes> kept_bytes(const Workload& workload) {
  const std::vector<Op>& ops = workload.ops;
  std::vector<bool> kept(ops.size()), read(ops.size());
  std::unordered_map<std::string_view, std::size_t> writers;
  std::size_t before = ops.size();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].phase != Phase::forward) continue;
    const Again again = std::visit(ReadAgain{}, ops[i].body);
    kept[i] = again == Again::output || keeps_output(ops[i]);
    const auto reads = [&](std::size_t producer) {
      read[producer] = true;
      if (again == Again::inputs) kept[producer] = true;
    };
    if (ops[i].inputs.empty() && before < ops.size()) reads(before);
    for (const std::string& input : ops[i].inputs) {
      if (const auto writer = writers.find(input); writer != writers.end()) reads(writer->second);
    }
    for (const std::string& output : ops[i].outputs) writers[output] = i;
    before = i;
  }
  std::vector<Bytes> bytes(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].phase != Phase::forward) continue;
    // What nobody reads is the network's result.
    if (kept[i] || !read[i]) bytes[i] = output_bytes(ops[i]);
    bytes[i] += index_bytes(ops[i]);
  }
  return bytes;
}

}  // namespace rooftile
