// What the library's inference functions see of one node: types and known elements of its inputs.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/defs/schema.h"
#include "rooftile/formats/onnx/constant.h"

namespace rooftile::onnx_format {

struct NodeInput {
  bool present = false;
  const onnx::TypeProto* type = nullptr;      // nullptr where unknown
  const onnx::TensorProto* tensor = nullptr;  // an initializer with its elements
  const Constant* constant = nullptr;         // computed elements, some of which may be unknown
};

// Infers a subgraph; the result are the types of its outputs.
using SubgraphInference = std::function<std::vector<const onnx::TypeProto*>(
    const std::string& attribute, const onnx::GraphProto& graph,
    const std::vector<const onnx::TypeProto*>& input_types)>;

class NodeContext final : public onnx::InferenceContext {
 public:
  NodeContext(const onnx::NodeProto& node, std::vector<NodeInput> inputs,
              SubgraphInference subgraphs);
  ~NodeContext() override;

  // Whether the type of every input is known.
  bool knows_inputs() const;

  const onnx::AttributeProto* getAttribute(const std::string& name) const override;
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override;
  bool hasInput(size_t index) const override;
  const onnx::TensorProto* getInputData(size_t index) const override;
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t index) override;
  bool hasOutput(size_t index) override;
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override;
  const onnx::SparseTensorProto* getInputSparseData(size_t /*index*/) const override {
    return nullptr;
  }
  const onnx::TensorShapeProto* getSymbolicInput(size_t index) const override;

 private:
  const onnx::NodeProto& node_;
  std::vector<NodeInput> inputs_;
  std::vector<onnx::TypeProto> outputs_;
  SubgraphInference subgraphs_;
  std::map<std::string, std::unique_ptr<onnx::GraphInferencer>> inferencers_;
  // Messages made on demand from computed elements; a list keeps their addresses.
  mutable std::list<onnx::TensorProto> tensors_;
  mutable std::list<onnx::TensorShapeProto> symbolic_;
};

}  // namespace rooftile::onnx_format
