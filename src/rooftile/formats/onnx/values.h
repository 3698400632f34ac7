// The values of a model that is being inferred: their types, and the elements of small constants.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/dimensions.h"
#include "rooftile/formats/onnx/frame.h"
#include "rooftile/formats/onnx/masks.h"
#include "rooftile/formats/onnx/node_context.h"

namespace rooftile::onnx_format {

// Ends inference from any depth; caught in infer_model().
struct Refusal {
  std::string message;
};

class Values {
 public:
  explicit Values(const ResolvedDimensions& dimensions) : dimensions_(dimensions) {}

  const ResolvedDimensions& dimensions() const { return dimensions_; }

  ValueId add(const std::string& name);
  // An initializer of a graph.
  ValueId add(const onnx::TensorProto& tensor);
  Slot& slot(ValueId id) { return slots_[static_cast<std::size_t>(id)]; }
  const Slot& slot(ValueId id) const { return slots_[static_cast<std::size_t>(id)]; }

  // The type with symbols replaced, and negative sizes, which some exporters write for unknown
  // ones, made unknown. Throws Refusal for absurd ranks.
  void set_type(Slot& target, const onnx::TypeProto& type) const;
  // The inferred type, completed by what the file declares (nullptr: nothing).
  void merge_type(const onnx::TypeProto& inferred, const onnx::TypeProto* declared,
                  Slot& target) const;
  // An input of a subgraph. The library passes what a loop carries without its shape, because the
  // shape may change; the one it enters with stands for all iterations.
  void set_subgraph_input(const onnx::TypeProto* given, const onnx::ValueInfoProto& declared,
                          ValueId entering, ValueId id);
  // All sizes, when every one is known; for left-out values nothing.
  std::optional<Shape> shape(ValueId id) const;
  // The elements where they are known; nullptr where not.
  const Constant* constant(ValueId id);
  // The one known element of a scalar.
  std::optional<double> scalar(ValueId id);

  // `to` is the same value as `from`, under another name.
  void hand_through(ValueId from, ValueId to);
  // The elements that a Constant node holds.
  void set_constant(const onnx::NodeProto& node, ValueId id);
  // Gives the leading size of the outputs from `first` on that have none.
  void set_leading_size(const std::vector<ValueId>& outputs, std::size_t first,
                        std::int64_t length);

  std::vector<MaskInput> mask_inputs(const std::vector<ValueId>& ids) const;
  std::vector<NodeInput> node_inputs(const std::vector<ValueId>& ids) const;
  // The values as the graph keeps them, once.
  std::vector<Value> take();

 private:
  void fill_dims(const onnx::TensorShapeProto& declared, onnx::TypeProto_Tensor& tensor) const;
  static Value finish(Slot& done);

  const ResolvedDimensions& dimensions_;
  std::deque<Slot> slots_;
};

}  // namespace rooftile::onnx_format
