// The functions that a model defines for itself, by the nodes that call them.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <string>
#include <unordered_map>

namespace rooftile::onnx_format {

constexpr int kMaxFunctionDepth = 40;  // functions and subgraphs in each other

// "ai.onnx" is another name of the standard domain, "".
std::string normal_domain(const std::string& domain);

// Keeps pointers into the model.
class Functions {
 public:
  explicit Functions(const onnx::ModelProto& model);

  // Null where the node is an operator.
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

  // Nodes of the function and of those that it calls, known before any is opened; at most
  // limit + 1. Subgraphs are left out, and functions that call themselves end where they do.
  std::size_t opened_nodes(const onnx::FunctionProto& function, std::size_t limit, int depth = 0);

 private:
  std::unordered_map<std::string, const onnx::FunctionProto*> by_id_;
  std::unordered_map<const onnx::FunctionProto*, std::size_t> opened_;
};

}  // namespace rooftile::onnx_format
