#include "rooftile/formats/onnx/contrib_shapes.h"

#include <algorithm>

namespace rooftile::onnx_format {

using onnx::InferenceContext;

Dim fixed_dim(std::int64_t value) {
  Dim dim;
  dim.set_dim_value(value);
  return dim;
}

Dim unknown_dim() { return {}; }

std::optional<Dims> input_dims(InferenceContext& context, std::size_t index) {
  if (index >= context.getNumInputs()) return {};
  const auto* type = context.getInputType(index);
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return {};
  const auto& dims = type->tensor_type().shape().dim();
  return Dims(dims.begin(), dims.end());
}

Dim divided(const Dim& dim, std::int64_t divisor) {
  if (!dim.has_dim_value() || divisor <= 0 || dim.dim_value() % divisor != 0) return {};
  return fixed_dim(dim.dim_value() / divisor);
}

void set_output(InferenceContext& context, std::size_t index, std::size_t type_from,
                const Dims& dims) {
  if (!context.hasOutput(index)) return;
  if (type_from < context.getNumInputs() && context.getInputType(type_from) != nullptr) {
    const int elem_type = context.getInputType(type_from)->tensor_type().elem_type();
    set_output_type(context, index, elem_type);
  }
  auto* shape = context.getOutputType(index)->mutable_tensor_type()->mutable_shape();
  shape->clear_dim();
  for (const Dim& dim : dims) *shape->add_dim() = dim;
}

void set_output_type(InferenceContext& context, std::size_t index, int elem_type) {
  if (!context.hasOutput(index)) return;
  context.getOutputType(index)->mutable_tensor_type()->set_elem_type(elem_type);
}

void copy_input(InferenceContext& context, std::size_t from, std::size_t index) {
  if (const auto dims = input_dims(context, from)) set_output(context, index, from, *dims);
}

std::optional<Dims> matmul_dims(Dims a, Dims b) {
  if (a.empty() || b.empty()) return {};
  const bool vector_a = a.size() == 1;
  const bool vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), fixed_dim(1));
  if (vector_b) b.push_back(fixed_dim(1));
  const Dim& inner_a = a.back();
  const Dim& inner_b = b[b.size() - 2];
  if (inner_a.has_dim_value() && inner_b.has_dim_value() &&
      inner_a.dim_value() != inner_b.dim_value()) {
    fail_shape_inference("the operands of a matrix product do not fit: ", inner_a.dim_value(),
                         " and ", inner_b.dim_value());
  }
  Dims result;
  const std::size_t lead = std::max(a.size(), b.size()) - 2;
  for (std::size_t i = 0; i < lead; ++i) {
    const std::size_t from_end = lead - i + 2;
    const Dim left = from_end <= a.size() ? a[a.size() - from_end] : fixed_dim(1);
    const Dim right = from_end <= b.size() ? b[b.size() - from_end] : fixed_dim(1);
    result.push_back(left.has_dim_value() && left.dim_value() == 1 ? right : left);
  }
  if (!vector_a) result.push_back(a[a.size() - 2]);
  if (!vector_b) result.push_back(b.back());
  return result;
}

}  // namespace rooftile::onnx_format
