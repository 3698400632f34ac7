#include "rooftile/formats/onnx/node_context.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rooftile::onnx_format {
namespace {

// Larger sizes are nonsense, and would not fit into 64 bits after one more addition.
constexpr Number kLargestSize = 4e18L;

class Subgraph final : public onnx::GraphInferencer {
 public:
  Subgraph(std::string attribute, const onnx::GraphProto& graph, const SubgraphInference& infer)
      : attribute_(std::move(attribute)), graph_(graph), infer_(infer) {}

  std::vector<const onnx::TypeProto*> doInferencing(
      const std::vector<const onnx::TypeProto*>& input_types,
      const std::vector<const onnx::TensorProto*>& /*input_data*/) override {
    return infer_(attribute_, graph_, input_types);
  }

 private:
  std::string attribute_;
  const onnx::GraphProto& graph_;
  const SubgraphInference& infer_;
};

}  // namespace

NodeContext::NodeContext(const onnx::NodeProto& node, std::vector<NodeInput> inputs,
                         SubgraphInference subgraphs)
    : node_(node),
      inputs_(std::move(inputs)),
      outputs_(static_cast<std::size_t>(node.output_size())),
      subgraphs_(std::move(subgraphs)) {}

NodeContext::~NodeContext() = default;

bool NodeContext::knows_inputs() const {
  return std::all_of(inputs_.begin(), inputs_.end(), [](const NodeInput& input) {
    return !input.present || input.type != nullptr;
  });
}

const onnx::AttributeProto* NodeContext::getAttribute(const std::string& name) const {
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const onnx::TypeProto* NodeContext::getInputType(size_t index) const {
  if (index >= inputs_.size()) fail_type_inference("input ", index, " is missing");
  return inputs_[index].type;
}

bool NodeContext::hasInput(size_t index) const {
  return index < inputs_.size() && inputs_[index].present;
}

const onnx::TensorProto* NodeContext::getInputData(size_t index) const {
  if (index >= inputs_.size()) fail_type_inference("input ", index, " is missing");
  const NodeInput& input = inputs_[index];
  if (input.tensor != nullptr) return input.tensor;
  if (input.constant == nullptr || !is_fully_known(*input.constant)) return nullptr;
  return &tensors_.emplace_back(to_tensor(*input.constant));
}

onnx::TypeProto* NodeContext::getOutputType(size_t index) {
  if (index >= outputs_.size()) fail_type_inference("output ", index, " is missing");
  return &outputs_[index];
}

bool NodeContext::hasOutput(size_t index) {
  return index < outputs_.size() && !node_.output(static_cast<int>(index)).empty();
}

onnx::GraphInferencer* NodeContext::getGraphAttributeInferencer(const std::string& name) {
  const auto* attribute = getAttribute(name);
  if (attribute == nullptr || !attribute->has_g()) {
    fail_type_inference("attribute ", name, " holds no graph");
  }
  auto& inferencer = inferencers_[name];
  if (!inferencer) inferencer = std::make_unique<Subgraph>(name, attribute->g(), subgraphs_);
  return inferencer.get();
}

const onnx::TensorShapeProto* NodeContext::getSymbolicInput(size_t index) const {
  if (index >= inputs_.size()) fail_type_inference("input ", index, " is missing");
  const Constant* constant = inputs_[index].constant;
  if (constant == nullptr || constant->dims.size() > 1) return nullptr;
  auto& shape = symbolic_.emplace_back();
  for (const Number element : constant->elements) {
    auto* dim = shape.add_dim();
    if (is_known(element) && std::fabs(element) < kLargestSize) {
      dim->set_dim_value(static_cast<std::int64_t>(element));
    }
  }
  return &shape;
}

}  // namespace rooftile::onnx_format
