// The state of a model that is being inferred: values, and the scopes that name them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/constant.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

// A value and what inference knows of it.
struct Slot {
  Value value;
  onnx::TypeProto type;
  bool has_type = false;
  const onnx::TensorProto* tensor = nullptr;  // an initializer whose elements are there
  bool parsed = false;                        // `constant` has been tried from `tensor`
  std::unique_ptr<Constant> constant;
};

using Opsets = std::unordered_map<std::string, int>;

// One graph, subgraph or function body that is being run.
struct Frame {
  const Frame* parent = nullptr;  // of a subgraph: the scope it reads from; none for a function
  std::unordered_map<std::string_view, ValueId> names;
  std::unordered_map<std::string_view, ValueId> bound_outputs;  // of a function: the caller's
  std::unordered_map<std::string_view, const onnx::TypeProto*> declared;
  const Opsets* opsets = nullptr;
  std::string path;  // of the enclosing functions and subgraphs, with a trailing slash
  int depth = 0;
  std::vector<Node>* nodes = nullptr;  // where operators that run are put
};

// What running a subgraph of a control-flow node gives.
struct SubgraphRun {
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;
};

ValueId find_value(const Frame& frame, std::string_view name);

// All sizes, when every one of them is known.
std::optional<Shape> known_shape(const onnx::TypeProto& type);

}  // namespace rooftile::onnx_format
