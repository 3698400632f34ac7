#include "rooftile/readers/onnx/pattern_graph.h"

#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile::onnx_reader_detail {

using onnx_format::kNoValue;
using onnx_format::Origin;

PatternGraph::ValueId PatternGraph::input(Index index, std::size_t number) const {
  if (index < 0) return kNoValue;
  const std::vector<ValueId>& inputs = node(index).inputs;
  return number < inputs.size() ? inputs[number] : kNoValue;
}

PatternGraph::ValueId PatternGraph::output(Index index) const {
  return index < 0 || node(index).outputs.empty() ? kNoValue : node(index).outputs[0];
}

bool PatternGraph::is(Index index, std::string_view op) const {
  return index >= 0 && node(index).standard && node(index).op == op;
}

bool PatternGraph::is_any(Index index, std::initializer_list<std::string_view> ops) const {
  return index >= 0 && node(index).standard && is_one_of(node(index).op, ops);
}

PatternGraph::Index PatternGraph::producer(ValueId id) const {
  return id == kNoValue ? -1 : value(id).producer;
}

PatternGraph::Index PatternGraph::reader(ValueId id) const {
  if (id == kNoValue || value(id).graph_output || value(id).consumers.empty()) return -1;
  const std::vector<Index>& readers = value(id).consumers;
  const bool one = std::all_of(readers.begin(), readers.end(),
                               [&](Index index) { return index == readers.front(); });
  return one ? readers.front() : -1;
}

PatternGraph::ValueId PatternGraph::other_input(Index index, ValueId one) const {
  if (index < 0 || node(index).inputs.size() != 2) return kNoValue;
  return input(index, 0) == one ? input(index, 1) : input(index, 0);
}

bool PatternGraph::is_activation(ValueId id) const {
  return id != kNoValue && value(id).origin == Origin::activation;
}

std::optional<double> PatternGraph::scalar(ValueId id) const {
  if (id == kNoValue || !value(id).has_numbers || value(id).numbers.size() != 1) return {};
  return value(id).numbers[0];
}

bool PatternGraph::is_scalar(ValueId id) const {
  return id != kNoValue && !is_activation(id) && value(id).shape &&
         onnx_format::element_count(*value(id).shape) == 1;
}

const std::optional<onnx_format::Shape>& PatternGraph::shape(ValueId id) const {
  static const std::optional<onnx_format::Shape> unknown;
  if (id == kNoValue || !value(id).shape) return unknown;
  const double count = onnx_format::element_count(*value(id).shape);
  return count >= 1 && count <= kMaxElements ? value(id).shape : unknown;
}

bool PatternGraph::is_closed(const std::vector<Index>& nodes,
                             std::initializer_list<ValueId> results) const {
  const auto is_inside = [&](Index index) {
    return std::find(nodes.begin(), nodes.end(), index) != nodes.end();
  };
  for (const Index index : nodes) {
    for (const ValueId id : node(index).outputs) {
      if (id == kNoValue || std::find(results.begin(), results.end(), id) != results.end())
        continue;
      const Value& passed = value(id);
      if (passed.graph_output ||
          !std::all_of(passed.consumers.begin(), passed.consumers.end(), is_inside)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace rooftile::onnx_reader_detail
