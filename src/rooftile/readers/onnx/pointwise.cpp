// Elementwise operators, reductions, casts and quantisation.
#include <algorithm>
#include <array>
#include <string_view>

#include "rooftile/readers/onnx/handlers.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::element_count;
}  // namespace

// Operands that are broadcast (a bias, a scale) or small cost no traffic worth counting.
Outcome convert_elementwise(Conversion& c, const Node& node) {
  const auto out = c.output_shape(node, 0);
  if (!out) return Outcome::unknown_shape;
  const double elements = element_count(*out);
  std::int64_t full = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto shape = c.input_shape(node, i);
    if (shape && element_count(*shape) * 2 > elements) ++full;
  }
  Dtypes dtypes = c.simple_dtypes(node);
  if (node.op == "Where") dtypes.input = c.dtype(c.input(node, 1));
  c.add(node, Elementwise{snake_case(node.op), product(*out), std::max<std::int64_t>(full, 1)},
        dtypes);
  return Outcome::done;
}

Outcome convert_reduction(Conversion& c, const Node& node) {
  const auto in = c.input_shape(node, 0);
  const auto out = c.output_shape(node, 0);
  if (!in || !out) return Outcome::unknown_shape;
  std::string fn = snake_case(node.op);
  if (fn.starts_with("reduce_")) fn.erase(0, 7);
  c.add(node, Reduction{fn, product(*in), product(*out)}, c.simple_dtypes(node));
  return Outcome::done;
}

Outcome convert_cast(Conversion& c, const Node& node) {
  const Dtypes dtypes = c.simple_dtypes(node);
  const auto out = c.output_shape(node, 0);
  if (dtypes.input == dtypes.output) {
    c.view(node);
    return Outcome::done;
  }
  if (!out) return Outcome::unknown_shape;
  c.add(node, Cast{product(*out)}, dtypes);
  return Outcome::done;
}

// The operation before it writes the integers; of what another one has not computed it is a pass of
// its own.
Outcome convert_quantize(Conversion& c, const Node& node) {
  const auto out = c.output_shape(node, 0);
  if (!out) return Outcome::unknown_shape;
  if (node.op == "QuantizeLinear" && c.input(node, 0)->producer >= 0) return convert_view(c, node);
  c.add(node, Elementwise{snake_case(node.op), product(*out), 1}, c.simple_dtypes(node));
  return Outcome::done;
}

// What reads it reads the integers; only a result of the network is written as numbers.
Outcome convert_dequantize(Conversion& c, const Node& node) {
  if (c.output(node, 0) == nullptr) return Outcome::done;
  const Value& made = *c.output(node, 0);
  if (made.consumers.empty() || made.graph_output) return convert_quantize(c, node);
  c.dequantized[node.outputs[0]] = c.dtype(c.input(node, 0));
  return convert_view(c, node);
}

// A copy only in training mode, which opset 12 and later say with an input.
Outcome convert_dropout(Conversion& c, const Node& node) {
  const Value* training = c.input(node, 2);
  const bool trains = training != nullptr && training->has_numbers &&
                      training->numbers.size() == 1 && training->numbers[0] != 0;
  if (trains || int_attribute(node, "is_test", 1) == 0) return convert_elementwise(c, node);
  if (!node.outputs.empty() && !node.inputs.empty()) c.alias(node.outputs[0], node.inputs[0]);
  return Outcome::done;
}

// Adam(R, T, X…, G…, V…, H…), Momentum(R, T, X…, G…, V…), Adagrad likewise.
Outcome convert_optimizer(Conversion& c, const Node& node) {
  const bool adam = node.op == "Adam";
  const std::size_t per_tensor = adam ? 4 : 3;
  if (node.inputs.size() < 2 + per_tensor) return Outcome::unknown_shape;
  const std::size_t tensors = (node.inputs.size() - 2) / per_tensor;
  OptimizerStep step;
  step.fn = adam ? OptimizerKind::adam : OptimizerKind::momentum;
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto shape = c.input_shape(node, 2 + i);
    if (!shape) return Outcome::unknown_shape;
    step.parameters += product(*shape);
  }
  c.add(node, step, Dtypes(c.dtype(c.input(node, 2)))).phase = Phase::optimizer;
  return Outcome::done;
}

}  // namespace rooftile::onnx_reader_detail
