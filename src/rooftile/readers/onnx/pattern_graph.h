// Questions about the neighbours of a node, for finding patterns of operators.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_reader_detail {

class PatternGraph {
 public:
  using Graph = onnx_format::Graph;
  using Node = onnx_format::Node;
  using Value = onnx_format::Value;
  using ValueId = onnx_format::ValueId;
  using Index = std::int32_t;  // of a node; -1 = none

  explicit PatternGraph(const Graph& graph) : graph_(graph) {}

  const Graph& graph() const { return graph_; }
  const Node& node(Index index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }
  const Value& value(ValueId id) const { return graph_.values[static_cast<std::size_t>(id)]; }

  ValueId input(Index index, std::size_t number) const;
  ValueId output(Index index) const;
  // Whether there is such a node and it is a standard operator of this name.
  bool is(Index index, std::string_view op) const;
  bool is_any(Index index, std::initializer_list<std::string_view> ops) const;
  // The node that computes the value, and the only one that reads it.
  Index producer(ValueId id) const;
  Index reader(ValueId id) const;
  // The other operand of a node with two.
  ValueId other_input(Index index, ValueId one) const;
  bool is_activation(ValueId id) const;
  // The one element of a constant.
  std::optional<double> scalar(ValueId id) const;
  // A constant with one element, known or not.
  bool is_scalar(ValueId id) const;
  // Nothing where unknown, empty, or larger than any tensor.
  const std::optional<onnx_format::Shape>& shape(ValueId id) const;
  // Whether nothing outside of `nodes` reads what they compute, but for `results`.
  bool is_closed(const std::vector<Index>& nodes, std::initializer_list<ValueId> results) const;

 private:
  const Graph& graph_;
};

}  // namespace rooftile::onnx_reader_detail
