#include "rooftile/formats/onnx/values.h"

#include <fmt/format.h>

namespace rooftile::onnx_format {
namespace {

using onnx::TypeProto;

constexpr int kMaxRank = 64;

}  // namespace

std::optional<Shape> known_shape(const TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return {};
  Shape shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return {};
    shape.push_back(dim.dim_value());
  }
  return shape;
}

ValueId Values::add(const std::string& name) {
  slots_.emplace_back().value.name = name;
  return static_cast<ValueId>(slots_.size() - 1);
}

ValueId Values::add(const onnx::TensorProto& tensor) {
  const ValueId id = add(tensor.name());
  Slot& target = slot(id);
  target.value.origin = Origin::constant;
  target.value.root = id;
  target.value.stored = true;
  target.value.hides_later_keys = is_folded_triangle(tensor);
  TypeProto type;
  type.mutable_tensor_type()->set_elem_type(tensor.data_type());
  auto* shape = type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0) {
      throw Refusal{fmt::format("initializer '{}' has a dimension of {}", tensor.name(), dim)};
    }
    shape->add_dim()->set_dim_value(dim);
  }
  set_type(target, type);
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) target.tensor = &tensor;
  return id;
}

void Values::set_type(Slot& target, const TypeProto& type) const {
  target.type = type;
  target.has_type = type.value_case() != TypeProto::VALUE_NOT_SET;
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
  auto& shape = *target.type.mutable_tensor_type()->mutable_shape();
  if (shape.dim_size() > kMaxRank) {
    throw Refusal{fmt::format("value '{}' has {} dimensions, more than {}", target.value.name,
                              shape.dim_size(), kMaxRank)};
  }
  for (auto& dim : *shape.mutable_dim()) {
    if (dim.has_dim_param()) {
      if (const auto size = declared_size(dim, dimensions_.symbols)) dim.set_dim_value(*size);
    } else if (dim.has_dim_value() && dim.dim_value() < 0) {
      dim.clear_dim_value();
    }
  }
}

void Values::merge_type(const TypeProto& inferred, const TypeProto* declared, Slot& target) const {
  if (inferred.value_case() != TypeProto::VALUE_NOT_SET) set_type(target, inferred);
  if (declared == nullptr) return;
  const bool shapes_hold = dimensions_.declared_shapes_hold;
  if (!target.has_type) {
    set_type(target, *declared);
    if (!shapes_hold && target.type.has_tensor_type()) {
      target.type.mutable_tensor_type()->clear_shape();
    }
    return;
  }
  if (!shapes_hold || !target.type.has_tensor_type() || !declared->has_tensor_type() ||
      !declared->tensor_type().has_shape()) {
    return;
  }
  if (target.type.tensor_type().has_shape()) {
    fill_dims(declared->tensor_type().shape(), *target.type.mutable_tensor_type());
    return;
  }
  TypeProto completed = target.type;
  *completed.mutable_tensor_type()->mutable_shape() = declared->tensor_type().shape();
  set_type(target, completed);
}

void Values::fill_dims(const onnx::TensorShapeProto& declared,
                       onnx::TypeProto_Tensor& tensor) const {
  auto& shape = *tensor.mutable_shape();
  if (shape.dim_size() != declared.dim_size()) return;
  for (int i = 0; i < shape.dim_size(); ++i) {
    auto& dim = *shape.mutable_dim(i);
    if (dim.has_dim_value()) continue;
    const auto size = declared_size(declared.dim(i), dimensions_.symbols);
    if (size) dim.set_dim_value(*size);
  }
}

void Values::set_subgraph_input(const TypeProto* given, const onnx::ValueInfoProto& declared,
                                ValueId entering, ValueId id) {
  const TypeProto nothing;
  Slot& target = slot(id);
  merge_type(given != nullptr ? *given : nothing, declared.has_type() ? &declared.type() : nullptr,
             target);
  if (entering == kNoValue || !slot(entering).has_type || known_shape(target.type)) return;
  const TypeProto& first = slot(entering).type;
  const bool same_kind =
      !target.has_type || target.type.tensor_type().elem_type() == first.tensor_type().elem_type();
  if (same_kind) set_type(target, first);
}

std::optional<Shape> Values::shape(ValueId id) const {
  if (id == kNoValue) return {};
  return known_shape(slot(id).type);
}

const Constant* Values::constant(ValueId id) {
  if (id == kNoValue) return nullptr;
  Slot& source = slot(id);
  if (!source.constant && source.tensor != nullptr && !source.parsed) {
    source.parsed = true;
    if (auto parsed = parse_tensor(*source.tensor)) {
      source.constant = std::make_unique<Constant>(std::move(*parsed));
    }
  }
  return source.constant.get();
}

std::optional<double> Values::scalar(ValueId id) {
  const Constant* found = constant(id);
  if (found == nullptr || found->elements.size() != 1 || !is_known(found->elements[0])) return {};
  return static_cast<double>(found->elements[0]);
}

void Values::hand_through(ValueId from, ValueId to) {
  const Slot& source = slot(from);
  Slot& target = slot(to);
  target.value.same_as = from;
  target.value.origin = source.value.origin;
  target.value.root = source.value.root;
  target.value.reordered = source.value.reordered;
  target.value.stored = source.value.stored;
  target.value.hides_later_keys = source.value.hides_later_keys;
  target.type = source.type;
  target.has_type = source.has_type;
  target.tensor = source.tensor;
  if (source.constant) target.constant = std::make_unique<Constant>(*source.constant);
}

void Values::set_constant(const onnx::NodeProto& node, ValueId id) {
  Slot& target = slot(id);
  target.value.stored = true;
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_t() && attribute.t().data_location() != onnx::TensorProto::EXTERNAL) {
      target.tensor = &attribute.t();
    } else if (attribute.has_i()) {
      target.constant = std::make_unique<Constant>(
          Constant{{}, onnx::TensorProto::INT64, {static_cast<Number>(attribute.i())}});
    } else if (attribute.ints_size() > 0 &&
               attribute.ints_size() <= static_cast<int>(kMaxConstantElements)) {
      Constant made{{attribute.ints_size()}, onnx::TensorProto::INT64, {}};
      for (const std::int64_t element : attribute.ints()) {
        made.elements.push_back(static_cast<Number>(element));
      }
      target.constant = std::make_unique<Constant>(std::move(made));
    }
  }
}

void Values::set_leading_size(const std::vector<ValueId>& outputs, std::size_t first,
                              std::int64_t length) {
  for (std::size_t i = first; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    auto& type = slot(outputs[i]).type;
    if (!type.has_tensor_type() || type.tensor_type().shape().dim_size() == 0) continue;
    auto& dim = *type.mutable_tensor_type()->mutable_shape()->mutable_dim(0);
    if (!dim.has_dim_value()) dim.set_dim_value(length);
  }
}

std::vector<NodeInput> Values::node_inputs(const std::vector<ValueId>& ids) const {
  std::vector<NodeInput> result;
  result.reserve(ids.size());
  for (const ValueId id : ids) {
    NodeInput& input = result.emplace_back();
    if (id == kNoValue) continue;
    input.present = true;
    const Slot& source = slot(id);
    if (source.has_type) input.type = &source.type;
    input.tensor = source.tensor;
    input.constant = source.constant.get();
  }
  return result;
}

std::vector<MaskInput> Values::mask_inputs(const std::vector<ValueId>& ids) const {
  std::vector<MaskInput> result;
  result.reserve(ids.size());
  for (const ValueId id : ids) {
    MaskInput& input = result.emplace_back();
    if (id != kNoValue) input = {&slot(id).value, shape(id)};
  }
  return result;
}

Value Values::finish(Slot& done) {
  constexpr std::size_t kMaxNumbers = 64;
  Value value = std::move(done.value);
  if (done.type.has_tensor_type()) value.elem_type = done.type.tensor_type().elem_type();
  value.shape = known_shape(done.type);
  if (!done.constant && done.tensor != nullptr && value.shape &&
      element_count(*value.shape) <= static_cast<double>(kMaxNumbers)) {
    if (auto parsed = parse_tensor(*done.tensor)) {
      done.constant = std::make_unique<Constant>(std::move(*parsed));
    }
  }
  if (done.constant && done.constant->elements.size() <= kMaxNumbers &&
      is_fully_known(*done.constant)) {
    value.has_numbers = true;
    for (const Number number : done.constant->elements) {
      value.numbers.push_back(static_cast<double>(number));
    }
  }
  return value;
}

std::vector<Value> Values::take() {
  std::vector<Value> result;
  result.reserve(slots_.size());
  for (Slot& done : slots_) result.push_back(finish(done));
  return result;
}

}  // namespace rooftile::onnx_format
