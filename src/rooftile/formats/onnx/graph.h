// A model as the ONNX library understands it: the operators that run, in order, with functions and
// subgraphs opened, and the type and shape of every value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onnx {
class NodeProto;
}

namespace rooftile::onnx_format {

using Shape = std::vector<std::int64_t>;
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;  // an optional input or output that is left out

// How a value comes about. Constants are computed from initializers alone; shape data is computed
// from constants and the sizes of tensors, so it is known before the network runs.
enum class Origin { activation, constant, shape_data };

struct Value {
  std::string name;
  int elem_type = 0;           // onnx::TensorProto::DataType; 0 = unknown
  std::optional<Shape> shape;  // empty unless every size is known
  Origin origin = Origin::activation;
  bool graph_input = false, graph_output = false;
  // Of a constant: the initializer (or ConstantOfShape) it is a reordered or converted form of.
  ValueId root = kNoValue;
  bool stored = false;                  // the file holds its elements: no operator computes it
  bool hides_later_keys = false;        // an attention mask with a triangle in it
  bool reordered = false;               // a Transpose lies between the root and this constant
  ValueId same_as = kNoValue;           // a subgraph's value that is handed through unchanged
  std::vector<std::int32_t> consumers;  // indexes into Graph::nodes
  std::int32_t producer = -1;           // index into Graph::nodes
  std::vector<double> numbers;          // of a small constant (or shape data), row-major
  bool has_numbers = false;
};

struct Node {
  const onnx::NodeProto* proto = nullptr;
  std::string name;      // path of enclosing functions and subgraphs, then its own; may be empty
  std::string op;        // operator type
  bool contrib = false;  // of the com.microsoft domain
  bool standard = true;  // of the ai.onnx domain
  int opset = 0;
  std::int64_t repeat = 1;  // trip count of the enclosing loops
  std::vector<ValueId> inputs, outputs;
};

struct Graph {
  Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::vector<Value> values;
  std::vector<Node> nodes;  // without those that only compute constants or shape data
  std::map<std::string, std::int64_t> skipped;
  std::vector<std::string> notes;
  std::vector<std::string> unused_choices;  // of dimensions, as flags
  std::string producer;
  std::optional<std::int64_t> batch, sequence;  // of the inputs, where they tell

  struct Storage;  // the messages that `proto` points into
  std::unique_ptr<Storage> storage;
};

// Fills in the consumers and producers of all values.
void connect(Graph& graph);

// The values of a node's attributes, or the fallback where absent or of another type.
std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t fallback);
std::string string_attribute(const Node& node, std::string_view name, std::string_view fallback);
std::vector<std::int64_t> ints_attribute(const Node& node, std::string_view name);
std::vector<std::string> strings_attribute(const Node& node, std::string_view name);
// Of the node's metadata; empty where absent.
std::string metadata(const Node& node, std::string_view key);
bool has_attribute(const Node& node, std::string_view name);

// Element count; a double because hostile sizes overflow 64 bits.
double element_count(const Shape& shape);

}  // namespace rooftile::onnx_format
