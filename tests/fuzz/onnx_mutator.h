// Changes ONNX models as models (nodes, attributes, shapes, weights), so that most of them get past
// the parser and reach shape inference and the readers of operators.
#pragma once

#include <onnx/onnx_pb.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/fuzz/choice.h"

namespace fuzzing {

inline std::int64_t other_number(std::int64_t old, Choice& choice) {
  using Limits = std::numeric_limits<std::int64_t>;
  constexpr std::array<std::int64_t, 18> kNumbers{-1,
                                                  0,
                                                  1,
                                                  2,
                                                  3,
                                                  4,
                                                  7,
                                                  8,
                                                  64,
                                                  255,
                                                  4096,
                                                  65537,
                                                  1LL << 31U,
                                                  1LL << 40U,
                                                  (1LL << 31U) - 1,
                                                  1000000007,
                                                  Limits::max(),
                                                  Limits::min()};
  const auto wrapped = static_cast<std::uint64_t>(old);
  switch (choice.below(4)) {
    case 0:
      return static_cast<std::int64_t>(wrapped + 1);
    case 1:
      return static_cast<std::int64_t>(wrapped * 2);
    default:
      return choice.of(kNumbers);
  }
}

class ModelMutator {
 public:
  // Parts of the donor may come into the model.
  ModelMutator(onnx::ModelProto& model, const onnx::ModelProto& donor, std::uint32_t seed)
      : model_(model), donor_(donor), choice_(seed) {
    add_graphs(*model_.mutable_graph(), 0);
  }

  void mutate() {
    constexpr std::array kChanges{&ModelMutator::remove_node,      &ModelMutator::repeat_node,
                                  &ModelMutator::swap_nodes,       &ModelMutator::borrow_node,
                                  &ModelMutator::change_operator,  &ModelMutator::change_input,
                                  &ModelMutator::change_output,    &ModelMutator::change_attribute,
                                  &ModelMutator::change_attribute, &ModelMutator::copy_attribute,
                                  &ModelMutator::remove_attribute, &ModelMutator::change_shape,
                                  &ModelMutator::change_shape,     &ModelMutator::change_type,
                                  &ModelMutator::change_weight,    &ModelMutator::change_version};
    for (std::size_t i = 1 + choice_.below(3); i > 0; --i) {
      graph_ = choice_.of(graphs_);
      (this->*choice_.of(kChanges))();
      // A removed node may have held one of the graphs.
      graphs_.clear();
      add_graphs(*model_.mutable_graph(), 0);
    }
  }

 private:
  static constexpr int kMaxDepth = 6;

  void add_graphs(onnx::GraphProto& graph, int depth) {
    graphs_.push_back(&graph);
    if (depth == kMaxDepth) return;
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) add_graphs(*attribute.mutable_g(), depth + 1);
      }
    }
  }

  onnx::NodeProto* node() {
    const int count = graph_->node_size();
    return count == 0 ? nullptr : graph_->mutable_node(index(count));
  }

  int index(int count) { return static_cast<int>(choice_.below(static_cast<std::size_t>(count))); }

  // The name of any value of the graph.
  std::string value() {
    std::vector<std::string> names{""};
    for (const onnx::NodeProto& node : graph_->node()) {
      names.insert(names.end(), node.output().begin(), node.output().end());
    }
    for (const onnx::TensorProto& weight : graph_->initializer()) names.push_back(weight.name());
    for (const onnx::ValueInfoProto& input : graph_->input()) names.push_back(input.name());
    return choice_.of(names);
  }

  void remove_node() {
    const int count = graph_->node_size();
    if (count > 0) graph_->mutable_node()->DeleteSubrange(index(count), 1);
  }

  void repeat_node() {
    if (const onnx::NodeProto* old = node()) {
      const onnx::NodeProto copy = *old;
      *graph_->add_node() = copy;
    }
  }

  void swap_nodes() {
    const int count = graph_->node_size();
    if (count > 1) graph_->mutable_node()->SwapElements(index(count), index(count));
  }

  void borrow_node() {
    const int count = donor_.graph().node_size();
    if (count == 0) return;
    onnx::NodeProto& added = *graph_->add_node();
    added = donor_.graph().node(index(count));
    for (std::string& input : *added.mutable_input()) input = value();
    graph_->mutable_node()->SwapElements(graph_->node_size() - 1, index(graph_->node_size()));
  }

  void change_operator() {
    onnx::NodeProto* const changed = node();
    const onnx::GraphProto& from = choice_.below(2) == 0 ? *graph_ : donor_.graph();
    if (changed == nullptr || from.node_size() == 0) return;
    const std::string name = from.node(index(from.node_size())).op_type();
    changed->set_op_type(name);
  }

  void change_input() {
    onnx::NodeProto* const changed = node();
    if (changed == nullptr) return;
    const int count = changed->input_size();
    if (count == 0 || choice_.below(6) == 0) {
      changed->add_input(value());
    } else if (choice_.below(6) == 0) {
      changed->mutable_input()->RemoveLast();
    } else {
      changed->set_input(index(count), value());
    }
  }

  void change_output() {
    onnx::NodeProto* const changed = node();
    if (changed == nullptr || changed->output_size() == 0) return;
    changed->set_output(index(changed->output_size()), value());
  }

  onnx::AttributeProto* attribute() {
    onnx::NodeProto* const holder = node();
    if (holder == nullptr || holder->attribute_size() == 0) return nullptr;
    return holder->mutable_attribute(index(holder->attribute_size()));
  }

  void change_attribute() {
    onnx::AttributeProto* const changed = attribute();
    if (changed == nullptr) return;
    if (changed->ints_size() > 0) {
      const int at = index(changed->ints_size());
      changed->set_ints(at, other_number(changed->ints(at), choice_));
      if (choice_.below(6) == 0) changed->add_ints(changed->ints(at));
      if (choice_.below(6) == 0) changed->mutable_ints()->RemoveLast();
    } else if (changed->has_i()) {
      changed->set_i(other_number(changed->i(), choice_));
    } else if (changed->has_f()) {
      constexpr std::array kFloats{0.0F, -1.0F, 1e38F, 0.5F,
                                   std::numeric_limits<float>::quiet_NaN()};
      changed->set_f(choice_.of(kFloats));
    } else if (changed->has_t()) {
      change_tensor(*changed->mutable_t());
    }
  }

  void copy_attribute() {
    const onnx::AttributeProto* const from = attribute();
    if (from == nullptr) return;
    const onnx::AttributeProto copy = *from;
    *node()->add_attribute() = copy;
  }

  void remove_attribute() {
    onnx::NodeProto* const holder = node();
    if (holder == nullptr || holder->attribute_size() == 0) return;
    holder->mutable_attribute()->DeleteSubrange(index(holder->attribute_size()), 1);
  }

  // The declared type of an input, an output, or a value.
  onnx::TypeProto::Tensor* declared() {
    std::vector<onnx::ValueInfoProto*> found;
    for (auto* const list :
         {graph_->mutable_input(), graph_->mutable_output(), graph_->mutable_value_info()}) {
      for (onnx::ValueInfoProto& info : *list) found.push_back(&info);
    }
    if (found.empty()) return nullptr;
    return choice_.of(found)->mutable_type()->mutable_tensor_type();
  }

  void change_shape() {
    onnx::TypeProto::Tensor* const type = declared();
    if (type == nullptr) return;
    auto& dims = *type->mutable_shape()->mutable_dim();
    if (dims.empty() || choice_.below(6) == 0) dims.Add()->set_dim_value(1);
    onnx::TensorShapeProto::Dimension& dim = dims[index(dims.size())];
    switch (choice_.below(6)) {
      case 0:
        dim.set_dim_param("batch");
        return;
      case 1:
        dims.RemoveLast();
        return;
      case 2:
        type->clear_shape();
        return;
      default:
        dim.set_dim_value(other_number(dim.dim_value(), choice_));
    }
  }

  void change_type() {
    constexpr int kTypes = 24;
    if (onnx::TypeProto::Tensor* const type = declared()) type->set_elem_type(index(kTypes));
  }

  void change_weight() {
    if (graph_->initializer_size() == 0) return;
    change_tensor(*graph_->mutable_initializer(index(graph_->initializer_size())));
  }

  void change_tensor(onnx::TensorProto& tensor) {
    switch (choice_.below(4)) {
      case 0:
        tensor.set_data_type(static_cast<int>(choice_.below(24)));
        return;
      case 1:
        tensor.add_dims(other_number(1, choice_));
        return;
      case 2:
        if (tensor.int64_data_size() > 0) {
          const int at = index(tensor.int64_data_size());
          tensor.set_int64_data(at, other_number(tensor.int64_data(at), choice_));
        } else if (!tensor.raw_data().empty()) {
          choice_.of(*tensor.mutable_raw_data()) = static_cast<char>(choice_.below(256));
        }
        return;
      default:
        if (tensor.dims_size() == 0) return;
        const int at = index(tensor.dims_size());
        tensor.set_dims(at, other_number(tensor.dims(at), choice_));
    }
  }

  void change_version() {
    if (model_.opset_import_size() == 0) model_.add_opset_import();
    model_.mutable_opset_import(index(model_.opset_import_size()))
        ->set_version(static_cast<std::int64_t>(choice_.below(30)));
  }

  onnx::ModelProto& model_;
  const onnx::ModelProto& donor_;
  Choice choice_;
  std::vector<onnx::GraphProto*> graphs_;
  onnx::GraphProto* graph_ = nullptr;
};

}  // namespace fuzzing
