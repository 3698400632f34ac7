// From an ONNX graph with shapes to operations: what all handlers of operators share.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/formats/onnx/graph.h"
#include "rooftile/readers/onnx/exported_calls.h"
#include "rooftile/workload/workload.h"

namespace rooftile::onnx_reader_detail {

using onnx_format::Graph;
using onnx_format::Node;
using onnx_format::Shape;
using onnx_format::Value;
using onnx_format::ValueId;

// What becomes of a node. `unknown_shape` and `unsupported` are counted by the caller.
enum class Outcome { done, unknown_shape, unsupported };

class Conversion {
 public:
  Conversion(const Graph& graph, std::string file);

  Workload run(Mode mode = Mode::inference);

  // For handlers: inputs and outputs of a node; nullptr where left out or out of range.
  const Value* input(const Node& node, std::size_t index) const;
  const Value* output(const Node& node, std::size_t index) const;
  // Sizes, or nothing where unknown, left out, or one of them is 0.
  std::optional<Shape> input_shape(const Node& node, std::size_t index) const;
  std::optional<Shape> output_shape(const Node& node, std::size_t index) const;
  bool is_constant(const Node& node, std::size_t index) const;

  Dtype dtype(const Value* value) const;
  // Of the stored tensor behind a constant (int8 behind a DequantizeLinear), or of the value that a
  // DequantizeLinear read.
  Dtype stored_dtype(const Node& node, std::size_t index) const;
  // Of the first output; the integers where a QuantizeLinear alone reads it.
  Dtype written_dtype(const Node& node) const;
  // Input, weight and output precision of a matrix operator.
  Dtypes matrix_dtypes(const Node& node, std::size_t x, std::size_t w) const;
  Dtypes simple_dtypes(const Node& node) const;
  double bytes(const Value* value) const;

  // Adds an operation for the node. `reads` and `writes` replace the node's own values where a
  // neighbour is folded in.
  Op& add(const Node& node, Body body, Dtypes dtypes);
  Op& add(const Node& node, Body body, Dtypes dtypes, const std::vector<ValueId>& writes);
  // The node's outputs are its first input under another name.
  void view(const Node& node);
  void alias(ValueId to, ValueId from);
  // The node is folded into another operation and gives none of its own.
  void fold(std::int32_t node_index);
  bool is_folded(std::int32_t node_index) const {
    return folded_[static_cast<std::size_t>(node_index)];
  }
  // The only node that reads the output, when nothing else does.
  std::int32_t sole_consumer(ValueId id) const;
  const Node& node(std::int32_t index) const {
    return graph_.nodes[static_cast<std::size_t>(index)];
  }
  const Value& value(ValueId id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  const Graph& graph() const { return graph_; }
  bool is_pytorch() const { return pytorch_; }
  bool runs_quantized() const { return quantized_; }
  // Something that the user has to know of the file, in words.
  void note(std::string text) { workload_.notes.push_back(std::move(text)); }
  // Counts the elements of the tensor behind a constant input as parameters, once.
  void count_parameter(const Node& node, std::size_t index);

  // A Transpose of the last two axes that a product takes as a layout: output id -> input id.
  std::unordered_map<ValueId, ValueId> transposed;
  // What a DequantizeLinear of an activation read: output id -> its element type's dtype.
  std::unordered_map<ValueId, Dtype> dequantized;

  // Of a quantized graph: whether the operation before this node computes what the node does, as
  // runtimes fuse activations and BatchNorm into matrix operators.
  bool is_epilogue(const Node& node) const;

 private:
  void take_exported_calls();
  void add_call(const ExportedCall& call);
  void note_calls();
  void note_functions();
  void find_folded_norms();
  void put_back_norm(const Node& conv, std::size_t first);
  void note_folded_norms();
  void convert(const Node& node);
  void drop_invalid(const Node& node, std::size_t first);
  std::vector<std::string> value_names(const std::vector<ValueId>& ids, bool activations_only);
  const std::string& unique_value_name(ValueId id);
  std::string unique_op_name(const Node& node);
  std::string module_of(const Node& node) const;
  ValueId resolve(ValueId id) const;
  void count_parameters(const Node& node);
  std::int32_t sole_producer(const Node& node) const;
  // What a DequantizeLinear before the value, perhaps with views between, has read.
  std::optional<Dtype> dequantized_behind(ValueId id) const;
  bool is_trained(const Node& node, std::size_t index) const;

  const Graph& graph_;
  std::string file_;
  Workload workload_;
  std::vector<ValueId> alias_;
  std::vector<bool> folded_;
  bool quantized_ = false;                                // a QuantizeLinear is among the nodes
  bool pytorch_;                                          // see is_pytorch_export()
  std::unordered_map<std::int32_t, ExportedCall> calls_;  // by their last node
  std::unordered_map<ValueId, std::string> value_names_;
  std::set<std::string> used_values_, used_ops_;
  std::set<ValueId> parameters_;
  std::set<const Node*> normed_;  // convolutions that took up a BatchNorm, put back in training
  double folded_parameters_ = 0;  // of those norms, beyond the biases that stand for them
};

// Product of the sizes from `first` to before `last`.
std::int64_t product(const Shape& shape, std::size_t first, std::size_t last);
std::int64_t product(const Shape& shape);
// Held at a number that no valid size reaches, because attributes of hostile files can be anything.
std::int64_t bounded_product(std::int64_t a, std::int64_t b);
// Of the axes of a Transpose.
bool swaps_last_two(const Extents& perm);
bool keeps_last_axis(const Extents& perm);
std::optional<std::size_t> normal_axis(std::int64_t axis, std::size_t rank);
// LeakyRelu -> leaky_relu
std::string snake_case(const std::string& op);

using Handler = Outcome (*)(Conversion&, const Node&);

// The handler of an operator; nullptr when there is none.
Handler find_handler(const Node& node);

}  // namespace rooftile::onnx_reader_detail
