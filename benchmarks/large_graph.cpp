#include "large_graph.h"

#include <onnx/onnx_pb.h>

#include <initializer_list>
#include <vector>

namespace rooftile::benchmarks {
namespace {

constexpr std::int64_t kHeads = 12;
constexpr int kNodesPerLayer = 29;

int layers_of(const LargeGraph& options) {
  return (options.nodes + kNodesPerLayer - 1) / kNodesPerLayer;
}

// Four square matrices, two of the MLP with four times the width, in fp32.
std::int64_t bytes_per_layer(std::int64_t width) { return 12 * width * width * 4; }

// Adds nodes and weights to a graph; a node's output is named like the node.
class Builder {
 public:
  Builder(onnx::GraphProto& graph, const LargeGraph& options) : graph_(graph), options_(options) {}

  onnx::NodeProto& node(const std::string& op, const std::string& name,
                        const std::vector<std::string>& inputs) {
    onnx::NodeProto& added = *graph_.add_node();
    added.set_op_type(op);
    added.set_name(name);
    for (const std::string& input : inputs) added.add_input(input);
    added.add_output(name);
    return added;
  }

  // A weight in the external file, which nobody opens.
  std::string weight(const std::string& name, std::initializer_list<std::int64_t> shape) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    std::int64_t bytes = 4;
    for (const std::int64_t size : shape) {
      tensor.add_dims(size);
      bytes *= size;
    }
    add_entry(tensor, "location", options_.weight_file);
    add_entry(tensor, "offset", std::to_string(offset_));
    add_entry(tensor, "length", std::to_string(bytes));
    offset_ += bytes;
    return name;
  }

  std::string shape(const std::string& name, const std::vector<std::int64_t>& sizes) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<std::int64_t>(sizes.size()));
    for (const std::int64_t size : sizes) tensor.add_int64_data(size);
    return name;
  }

  std::string linear(const std::string& name, const std::string& input, std::int64_t in,
                     std::int64_t out) {
    node("MatMul", name + ".product", {input, weight(name + ".weight", {in, out})});
    node("Add", name, {name + ".product", weight(name + ".bias", {out})});
    return name;
  }

  std::string norm(const std::string& name, const std::string& input) {
    node("LayerNormalization", name,
         {input, weight(name + ".scale", {options_.width}),
          weight(name + ".bias", {options_.width})});
    return name;
  }

  std::string permute(const std::string& name, const std::string& input,
                      const std::vector<std::int64_t>& order) {
    onnx::AttributeProto& perm = *node("Transpose", name, {input}).add_attribute();
    perm.set_name("perm");
    perm.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t axis : order) perm.add_ints(axis);
    return name;
  }

 private:
  static void add_entry(onnx::TensorProto& tensor, const char* key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }

  onnx::GraphProto& graph_;
  const LargeGraph& options_;
  std::int64_t offset_ = 0;
};

std::string add_heads(Builder& builder, const std::string& prefix, const std::string& input,
                      const LargeGraph& options, bool transposed) {
  const std::int64_t head = options.width / kHeads;
  const std::string projected = builder.linear(prefix, input, options.width, options.width);
  builder.node(
      "Reshape", prefix + ".split",
      {projected, builder.shape(prefix + ".shape", {options.batch, options.tokens, kHeads, head})});
  return builder.permute(
      prefix + ".heads", prefix + ".split",
      transposed ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3});
}

std::string add_layer(Builder& builder, int index, const std::string& input,
                      const LargeGraph& options) {
  const std::string at = "layers." + std::to_string(index);
  const std::string normed = builder.norm(at + ".norm_1", input);
  const std::string q = add_heads(builder, at + ".q", normed, options, false);
  const std::string k = add_heads(builder, at + ".k", normed, options, true);
  const std::string v = add_heads(builder, at + ".v", normed, options, false);
  builder.node("MatMul", at + ".scores", {q, k});
  builder.node("Mul", at + ".scaled", {at + ".scores", builder.weight(at + ".scale", {1})});
  builder.node("Softmax", at + ".softmax", {at + ".scaled"});
  builder.node("MatMul", at + ".context", {at + ".softmax", v});
  builder.permute(at + ".merged", at + ".context", {0, 2, 1, 3});
  builder.node("Reshape", at + ".joined",
               {at + ".merged",
                builder.shape(at + ".shape", {options.batch, options.tokens, options.width})});
  const std::string out = builder.linear(at + ".out", at + ".joined", options.width, options.width);
  builder.node("Add", at + ".residual_1", {out, input});
  const std::string normed_2 = builder.norm(at + ".norm_2", at + ".residual_1");
  const std::string up = builder.linear(at + ".up", normed_2, options.width, 4 * options.width);
  builder.node("Gelu", at + ".gelu", {up});
  const std::string down =
      builder.linear(at + ".down", at + ".gelu", 4 * options.width, options.width);
  builder.node("Add", at + ".residual_2", {down, at + ".residual_1"});
  return at + ".residual_2";
}

void add_value(onnx::ValueInfoProto& value, const std::string& name, const LargeGraph& options) {
  value.set_name(name);
  onnx::TypeProto_Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t size : {options.batch, options.tokens, options.width}) {
    tensor.mutable_shape()->add_dim()->set_dim_value(size);
  }
}

}  // namespace

std::string large_graph(const LargeGraph& options) {
  onnx::ModelProto model;
  model.set_ir_version(onnx::IR_VERSION);
  model.add_opset_import()->set_version(20);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("large");
  add_value(*graph.add_input(), "hidden", options);
  Builder builder(graph, options);
  std::string last = "hidden";
  for (int i = 0; i < layers_of(options); ++i) last = add_layer(builder, i, last, options);
  add_value(*graph.add_output(), last, options);
  return model.SerializeAsString();
}

std::int64_t weight_bytes(const LargeGraph& options) {
  return layers_of(options) * bytes_per_layer(options.width);
}

}  // namespace rooftile::benchmarks
