#include "rooftile/formats/onnx/graph.h"

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/storage.h"

namespace rooftile::onnx_format {
namespace {

const onnx::AttributeProto* find(const Node& node, std::string_view name) {
  if (node.proto == nullptr) return nullptr;
  for (const auto& attribute : node.proto->attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

}  // namespace

Graph::Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void connect(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    for (const ValueId id : graph.nodes[i].inputs) {
      if (id != kNoValue) graph.values[static_cast<std::size_t>(id)].consumers.push_back(index);
    }
    for (const ValueId id : graph.nodes[i].outputs) {
      if (id != kNoValue) graph.values[static_cast<std::size_t>(id)].producer = index;
    }
  }
}

std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t fallback) {
  const auto* attribute = find(node, name);
  return attribute != nullptr && attribute->has_i() ? attribute->i() : fallback;
}

std::string string_attribute(const Node& node, std::string_view name, std::string_view fallback) {
  const auto* attribute = find(node, name);
  return attribute != nullptr && attribute->has_s() ? attribute->s() : std::string(fallback);
}

std::vector<std::int64_t> ints_attribute(const Node& node, std::string_view name) {
  const auto* attribute = find(node, name);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<std::string> strings_attribute(const Node& node, std::string_view name) {
  const auto* attribute = find(node, name);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

std::string metadata(const Node& node, std::string_view key) {
  if (node.proto == nullptr) return {};
  for (const auto& entry : node.proto->metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

bool has_attribute(const Node& node, std::string_view name) { return find(node, name) != nullptr; }

double element_count(const Shape& shape) {
  double product = 1.0;
  for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

}  // namespace rooftile::onnx_format
