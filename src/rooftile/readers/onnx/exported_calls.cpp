#include "rooftile/readers/onnx/exported_calls.h"

#include <algorithm>

#include "rooftile/readers/onnx/exported_attention.h"
#include "rooftile/readers/onnx/exported_pointwise.h"
#include "rooftile/readers/onnx/pattern_graph.h"

namespace rooftile::onnx_reader_detail {
namespace {

using onnx_format::Graph;
using onnx_format::Node;

std::optional<ExportedCall> find_function_at(const PatternGraph& graph, std::int32_t index) {
  if (auto activation = find_exported_activation(graph, index)) return activation;
  return find_exported_norm(graph, index);
}

std::optional<ExportedCall> find_call_at(const PatternGraph& graph, std::int32_t index) {
  if (graph.is(index, "Softmax")) return find_exported_attention(graph, index);
  if (graph.is(index, "Concat")) return find_exported_rotary(graph, index);
  if (graph.is(index, "Split")) return find_exported_cell(graph, index);
  return find_function_at(graph, index);
}

template <class FindAt>
std::vector<ExportedCall> find_calls(const Graph& graph, const FindAt& find_at) {
  const PatternGraph patterns(graph);
  std::vector<ExportedCall> calls;
  std::vector<bool> taken(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (taken[i]) continue;
    auto call = find_at(patterns, static_cast<std::int32_t>(i));
    if (!call) continue;
    std::sort(call->nodes.begin(), call->nodes.end());
    const bool free = std::none_of(call->nodes.begin(), call->nodes.end(), [&](std::int32_t node) {
      return taken[static_cast<std::size_t>(node)];
    });
    if (!free || !patterns.is_closed(call->nodes, {call->writes, call->state})) continue;
    for (const std::int32_t node : call->nodes) taken[static_cast<std::size_t>(node)] = true;
    calls.push_back(std::move(*call));
  }
  return calls;
}

}  // namespace

bool is_pytorch_export(const Graph& graph) {
  return graph.producer == "pytorch" &&
         std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
           return node.contrib || node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
         });
}

std::vector<ExportedCall> find_exported_calls(const Graph& graph) {
  return find_calls(graph, find_call_at);
}

std::vector<ExportedCall> find_written_out_functions(const Graph& graph) {
  return find_calls(graph, find_function_at);
}

}  // namespace rooftile::onnx_reader_detail
