// An exported program: its graph, the values in it and what its inputs are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/base/result.h"

namespace rooftile::pt2_format {

// A whole number, or an expression of symbols with the value it had at the export.
struct Size {
  std::optional<std::int64_t> number;
  std::string expression;
  std::string name;  // of a value of the graph that holds it
};

struct TensorMeta {
  int dtype = 0;  // ScalarType of torch/_export/serde/schema.py
  std::vector<Size> sizes, strides;
};

struct Graph;

struct Argument {
  enum class Kind { none, tensor, tensors, sizes, size, dtype, values, graph, unknown };
  Kind kind = Kind::none;
  // Of tensors; an empty name is None.
  std::vector<std::string> names;
  std::vector<Size> sizes;
  int dtype = 0;
  std::string text;  // of values, as Python prints them; the kind of an unknown one: "as_complex"
  std::shared_ptr<const Graph> graph;
};

struct Frame {
  std::string file;
  std::int64_t line = 0;
};

struct GraphNode {
  std::string target;  // "torch.ops.aten.conv2d.default"
  std::vector<std::pair<std::string, Argument>> inputs;
  std::vector<Argument> outputs;
  std::string module;         // "layers.0.attn"
  std::vector<Frame> frames;  // outermost first
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<GraphNode> nodes;
  std::unordered_map<std::string, TensorMeta> tensors;
  std::unordered_map<std::string, Size> numbers;  // of symbolic values
};

enum class InputKind { user, parameter, buffer, constant, other };

struct InputSpec {
  InputKind kind = InputKind::other;
  std::string name;    // in the graph
  std::string target;  // "layers.0.attn.weight"
};

struct SymbolRange {
  std::optional<std::int64_t> least, most;
};

struct Program {
  std::int64_t major = 0, minor = 0;  // of the schema
  std::string torch_version;          // empty where it is not noted
  Graph graph;
  std::vector<InputSpec> inputs;
  std::map<std::string, SymbolRange> ranges;
  std::map<std::string, std::int64_t> unknown_arguments;  // kind -> count
};

// Any text gives a program or an error.
Result<Program> parse_program(std::string_view json);

struct StoredWeight {
  std::string file;   // "weight_0"
  std::string place;  // where in it: equal for weights that are one tensor
};

// Weights by name.
Result<std::map<std::string, StoredWeight>> parse_weight_files(std::string_view json);

}  // namespace rooftile::pt2_format
