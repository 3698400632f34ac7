#include "rooftile/analysis/cost.h"

#include <algorithm>

#include "rooftile/analysis/gemm_form.h"

namespace rooftile {
namespace {

Flop products_flop(const Op& op) {
  Flop flop;
  for (const MatrixProduct& product : matrix_products(op)) flop += product.flop();
  return flop;
}

// Full tensors read and written by one pass over `elements`, in the input and output dtype.
Bytes passes(const Op& op, double elements, double reads, double writes) {
  return storage(elements * reads, op.dtypes.input) + storage(elements * writes, op.dtypes.output);
}

Bytes gemm_bytes(const Op& op, const Gemm& gemm) {
  const double m = to_double(gemm.m), n = to_double(gemm.n), k = to_double(gemm.k);
  const Bytes once =
      to_double(gemm.batch) * (storage(m * k, op.dtypes.input) + storage(n * k, op.dtypes.weight) +
                               storage(m * n, op.dtypes.output));
  const bool two_products = op.phase == Phase::dgrad && !gemm.weight_is_parameter;
  return two_products ? 2 * once : once;
}

Bytes convolution_bytes(const Op& op, const Convolution& conv) {
  const double n = to_double(conv.n), c = to_double(conv.c), k = to_double(conv.k);
  return storage(n * c * element_count(conv.input), op.dtypes.input) +
         storage(k * c / to_double(conv.groups) * element_count(conv.kernel), op.dtypes.weight) +
         storage(n * k * element_count(output_extents(conv)), op.dtypes.output);
}

// Keys and values that any query sees: with a window not the whole cache.
double keys_touched(const Attention& attention) {
  const double all = to_double(attention.kv_len);
  if (attention.window == 0 || !attention.fused) return all;
  return std::min(all, to_double(attention.window) + to_double(attention.query_len) - 1);
}

// Stored as weights are: a cache may be narrower than the queries.
Bytes key_bytes(const Op& op, const Attention& attention) {
  const double rows =
      to_double(attention.batch) * to_double(attention.kv_heads) * keys_touched(attention);
  return storage(rows * to_double(key_width(attention)), op.dtypes.weight);
}

Bytes attention_bytes(const Op& op, const Attention& attention) {
  const double query_rows =
      to_double(attention.batch) * to_double(attention.heads) * to_double(attention.query_len);
  const double queries = query_rows * to_double(attention.head_dim + attention.value_dim);
  // Unfused: the scores are written, read and written by the softmax, and read again.
  const double score_passes = attention.fused ? 0 : 4;
  const double scores = query_rows * to_double(attention.kv_len) * score_passes;
  const Bytes forward = storage(queries + scores, op.dtypes.input) + key_bytes(op, attention);
  // The backward pass reads what the forward pass touched and as much gradient.
  return op.phase == Phase::forward ? forward : 2 * forward;
}

// Every weight and activation once; the recurrent weights stay in cache or registers at best.
Bytes recurrent_bytes(const Op& op, const Recurrent& rnn) {
  const double steps =
      rnn.tokens > 0 ? to_double(rnn.tokens) : to_double(rnn.batch) * to_double(rnn.seq);
  const double output =
      to_double(rnn.projection > 0 ? rnn.projection : rnn.hidden) * to_double(rnn.directions);
  const double activations =
      steps * (to_double(rnn.input) + (2 * to_double(rnn.layers) - 1) * output);
  return storage(count_parameters(op), op.dtypes.weight) + storage(activations, op.dtypes.input);
}

// Floating-point operations per element: counted from the usual formulas; they matter only to show
// that these operations lie far below every GPU's ridge.
constexpr double kNormFlopPerElement = 8;
constexpr double kSoftmaxFlopPerElement = 5;

Cost one_pass(const Op& op, double elements, double flop_per_element) {
  const bool backward = op.phase != Phase::forward;
  return {Flop(elements * flop_per_element), passes(op, elements, backward ? 2 : 1, 1)};
}

Cost elementwise_cost(const Op& op, const Elementwise& elementwise) {
  const double elements = to_double(elementwise.elements);
  const double inputs = to_double(elementwise.inputs);
  // The gradient of a sum is the gradient itself, added up where the value is used twice.
  if (op.phase == Phase::forward || elementwise.fn == "add") {
    return {Flop(elements * std::max(1.0, inputs - 1)), passes(op, elements, inputs, 1)};
  }
  return {Flop(2 * elements * inputs), passes(op, elements, inputs + 1, inputs)};
}

// Bytes per parameter of one step in fp32: weights, gradients and state read, weights and state
// written. PyTorch's fused kernels touch each once.
double optimizer_bytes_per_parameter(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
    case OptimizerKind::adafactor:
      return 4 * 3;
    case OptimizerKind::momentum:
      return 4 * 5;
    default:
      return 4 * 7;
  }
}

constexpr double kOptimizerFlopPerParameter = 12;  // Adam's update rule, term by term
constexpr double kIndexBytes = 8;                  // PyTorch indices are int64

struct CountCost {
  const Op& op;

  Cost operator()(const Gemm& gemm) const { return {products_flop(op), gemm_bytes(op, gemm)}; }
  Cost operator()(const Convolution& conv) const {
    return {products_flop(op), convolution_bytes(op, conv)};
  }
  Cost operator()(const Attention& attention) const {
    return {products_flop(op), attention_bytes(op, attention)};
  }
  Cost operator()(const Recurrent& rnn) const {
    return {products_flop(op), recurrent_bytes(op, rnn)};
  }
  Cost operator()(const Normalization& norm) const {
    return one_pass(op, to_double(norm.rows) * to_double(norm.cols), kNormFlopPerElement);
  }
  Cost operator()(const Softmax& softmax) const {
    return one_pass(op, to_double(softmax.rows) * to_double(softmax.cols), kSoftmaxFlopPerElement);
  }
  Cost operator()(const Pooling& pool) const {
    const double channels = to_double(pool.n) * to_double(pool.c);
    const double outputs = channels * element_count(pool.output);
    return {Flop(outputs * element_count(pool.kernel)),
            storage(channels * element_count(pool.input), op.dtypes.input) +
                storage(outputs, op.dtypes.output)};
  }
  Cost operator()(const Elementwise& elementwise) const {
    return elementwise_cost(op, elementwise);
  }
  Cost operator()(const Reduction& reduction) const {
    return {Flop(to_double(reduction.elements)),
            storage(to_double(reduction.elements), op.dtypes.input) +
                storage(to_double(reduction.outputs), op.dtypes.output)};
  }
  Cost operator()(const Embedding& table) const {
    const double elements = to_double(table.lookups) * to_double(table.width);
    if (table.bags > 0 && op.phase == Phase::forward) return bag_cost(table, elements);
    const Bytes indices(to_double(table.lookups) * kIndexBytes);
    if (op.phase == Phase::forward) {
      return {Flop(0), storage(2 * elements, op.dtypes.output) + indices};
    }
    // The gradient begins as zeros. It is added to the rows: read, add, write. Lookups of a bag
    // share its gradient.
    const double zeros = to_double(table.vocab) * to_double(table.width);
    const double given = table.bags > 0 ? to_double(table.bags) * to_double(table.width) : elements;
    return {Flop(elements), storage(zeros + 2 * elements + given, op.dtypes.output) + indices};
  }
  // EmbeddingBag_updateOutputKernel_sum_mean reads index and row of each lookup and notes its bag;
  // of each bag it reads where it begins and writes the sum and the count.
  Cost bag_cost(const Embedding& table, double elements) const {
    const double bags = to_double(table.bags);
    return {Flop(elements), storage(elements, op.dtypes.weight) +
                                storage(bags * to_double(table.width), op.dtypes.output) +
                                Bytes(2 * kIndexBytes * (to_double(table.lookups) + bags))};
  }
  Cost operator()(const LayoutConversion& conversion) const {
    return {Flop(0), passes(op, to_double(conversion.elements), 1, 1)};
  }
  Cost operator()(const Cast& cast) const {
    return {Flop(0), passes(op, to_double(cast.elements), 1, 1)};
  }
  Cost operator()(const Collective& collective) const {
    return {Flop(0), storage(to_double(collective.elements), op.dtypes.input)};
  }
  Cost operator()(const OptimizerStep& step) const {
    return {Flop(to_double(step.parameters) * kOptimizerFlopPerParameter),
            Bytes(to_double(step.parameters) * optimizer_bytes_per_parameter(step.fn))};
  }
  Cost operator()(const Other& other) const {
    return {Flop(to_double(other.flop)), Bytes(to_double(other.bytes))};
  }
};

}  // namespace

Cost count_cost(const Op& op) {
  Cost cost = std::visit(CountCost{op}, op.body);
  if (op.streams.bytes > 0 && !is_matrix_op(op)) cost.bytes = Bytes(to_double(op.streams.bytes));
  return cost;
}

Bytes count_state(const Op& op) {
  if (op.phase == Phase::wgrad || std::holds_alternative<Embedding>(op.body)) return {};
  const auto* attention = std::get_if<Attention>(&op.body);
  if (attention == nullptr) return storage(count_parameters(op), op.dtypes.weight);
  return reads_cache(*attention) ? key_bytes(op, *attention) : Bytes();
}

}  // namespace rooftile
