#include "rooftile/formats/onnx/sorting.h"

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {
namespace {

using onnx::GraphProto;
using onnx::NodeProto;

// Names a node reads, those of its subgraphs included; names that a subgraph defines itself are
// among them and match nothing outside.
void for_each_read(const NodeProto& node, const std::function<void(std::string_view)>& visit) {
  for (const auto& name : node.input()) visit(name);
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const auto& inner : attribute.g().node()) for_each_read(inner, visit);
    for (const auto& output : attribute.g().output()) visit(output.name());
  }
}

std::unordered_map<std::string_view, int> writers(const GraphProto& graph) {
  std::unordered_map<std::string_view, int> result;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& name : graph.node(i).output()) {
      if (!name.empty()) result.emplace(name, i);
    }
  }
  return result;
}

}  // namespace

bool is_sorted(const GraphProto& graph) {
  const auto written_by = writers(graph);
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& name : graph.node(i).input()) {
      const auto found = written_by.find(name);
      if (found != written_by.end() && found->second >= i) return false;
    }
  }
  return true;
}

std::optional<std::vector<int>> sorted_nodes(const GraphProto& graph) {
  const auto written_by = writers(graph);
  const auto count = static_cast<std::size_t>(graph.node_size());
  std::vector<std::vector<int>> readers(count);
  std::vector<int> waits(count, 0);
  for (int i = 0; i < graph.node_size(); ++i) {
    std::unordered_set<int> sources;
    for_each_read(graph.node(i), [&](std::string_view name) {
      const auto found = written_by.find(name);
      if (found != written_by.end() && sources.insert(found->second).second) {
        readers[static_cast<std::size_t>(found->second)].push_back(i);
        ++waits[static_cast<std::size_t>(i)];
      }
    });
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < count; ++i) {
    if (waits[i] == 0) order.push_back(static_cast<int>(i));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const int reader : readers[static_cast<std::size_t>(order[next])]) {
      if (--waits[static_cast<std::size_t>(reader)] == 0) order.push_back(reader);
    }
  }
  if (order.size() != count) return std::nullopt;
  return order;
}

}  // namespace rooftile::onnx_format
