#include "rooftile/formats/onnx/rebatch.h"

#include <algorithm>

namespace rooftile::onnx_format {
namespace {

void set_size(Slot& slot, std::size_t axis, std::int64_t size) {
  slot.type.mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(static_cast<int>(axis))
      ->set_dim_value(size);
}

// The axis that is the batch, else the first that holds it as a factor, as batch·heads does.
std::optional<std::size_t> batch_axis(const Shape& shape, std::int64_t batch) {
  auto found = std::find(shape.begin(), shape.end(), batch);
  if (found == shape.end()) {
    found = std::find_if(shape.begin(), shape.end(),
                         [&](std::int64_t size) { return size % batch == 0; });
  }
  if (found == shape.end()) return std::nullopt;
  return static_cast<std::size_t>(found - shape.begin());
}

// A target without -1 is short of elements by the ratio of the batches.
void scale_target(const Shape& before, const Shape& after, const Rebatch& batch, Slot& output) {
  const double wanted = element_count(before) * static_cast<double>(batch.from);
  if (wanted != element_count(after) * static_cast<double>(batch.to)) return;
  if (const auto axis = batch_axis(after, batch.from)) {
    set_size(output, *axis, after[*axis] / batch.from * batch.to);
  }
}

// A target [batch, …, -1]: the -1 has taken up the change.
void move_batch(const Constant& target, const Shape& after, const Rebatch& batch, Slot& output) {
  const auto is_free = [](Number size) { return size == -1; };
  const auto free = std::ranges::find_if(target.elements, is_free);
  if (free == target.elements.end() || target.elements.size() != after.size()) return;
  if (target.elements.front() != static_cast<Number>(batch.from)) return;
  const auto axis = static_cast<std::size_t>(free - target.elements.begin());
  if (axis == 0 || after[axis] * batch.from % batch.to != 0) return;
  set_size(output, 0, batch.to);
  set_size(output, axis, after[axis] * batch.from / batch.to);
}

}  // namespace

void follow_batch(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& outputs, Values& values) {
  const std::optional<Rebatch>& batch = values.dimensions().rebatch;
  if (!batch || inputs.size() < 2 || outputs.empty() || outputs[0] == kNoValue) return;
  const auto before = values.shape(inputs[0]);
  const auto after = values.shape(outputs[0]);
  const Constant* target = values.constant(inputs[1]);
  if (!before || !after || after->empty() || target == nullptr) return;
  Slot& output = values.slot(outputs[0]);
  if (node.op_type() == "Expand") {
    const bool holds_batch = target->elements.size() == after->size() &&
                             target->elements.front() == static_cast<Number>(batch->from);
    if (holds_batch && after->front() == batch->from) set_size(output, 0, batch->to);
  } else if (node.op_type() == "Reshape") {
    if (element_count(*before) != element_count(*after)) {
      scale_target(*before, *after, *batch, output);
    } else {
      move_batch(*target, *after, *batch, output);
    }
  }
}

}  // namespace rooftile::onnx_format
