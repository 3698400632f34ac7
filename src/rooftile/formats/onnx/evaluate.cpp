#include "rooftile/formats/onnx/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/evaluate_elementwise.h"

namespace rooftile::onnx_format {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using Evaluated = std::optional<Constant>;

constexpr Number kUnknown = std::numeric_limits<Number>::quiet_NaN();

// What an evaluation function sees.
struct Call {
  const NodeProto& node;
  const std::vector<EvaluatedInput>& inputs;
  const onnx::TypeProto& type;
  int output;

  const Constant* input(std::size_t index) const {
    return index < inputs.size() ? inputs[index].constant : nullptr;
  }

  const onnx::AttributeProto* attribute(std::string_view name) const {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }

  std::int64_t integer(std::string_view name, std::int64_t fallback) const {
    const auto* found = attribute(name);
    return found != nullptr ? found->i() : fallback;
  }

  // The output's sizes, where inference knows them all and they are small.
  std::optional<Shape> output_shape() const {
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return {};
    Shape shape;
    double count = 1;
    for (const auto& dim : type.tensor_type().shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() < 0) return {};
      shape.push_back(dim.dim_value());
      count *= static_cast<double>(dim.dim_value());
    }
    if (count > static_cast<double>(kMaxConstantElements)) return {};
    return shape;
  }

  int elem_type() const { return type.has_tensor_type() ? type.tensor_type().elem_type() : 0; }
};

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  return count;
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
  return static_cast<std::size_t>(axis);
}

std::optional<std::int64_t> integer_of(Number number) {
  if (!is_known(number) || std::fabs(number) > 9.3e18L) return {};
  if (number >= 9223372036854775807.0L) return std::numeric_limits<std::int64_t>::max();
  if (number <= -9223372036854775808.0L) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(number);
}

// An input list (opset 10 and later) or the attribute it used to be.
std::optional<Shape> integers(const Call& call, std::size_t index, std::string_view name) {
  Shape result;
  if (const Constant* constant = call.input(index)) {
    for (const Number element : constant->elements) {
      const auto value = integer_of(element);
      if (!value) return {};
      result.push_back(*value);
    }
    return result;
  }
  const auto* found = call.attribute(name);
  if (found == nullptr) return {};
  result.assign(found->ints().begin(), found->ints().end());
  return result;
}

Evaluated shape_of(const Call& call) {
  const auto* shape = call.inputs.empty() ? nullptr : call.inputs[0].shape;
  if (shape == nullptr) return {};
  const std::int64_t rank = shape->dim_size();
  const auto clamp = [rank](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamp(call.integer("start", 0));
  const std::int64_t end = std::max(start, clamp(call.integer("end", rank)));
  Constant result{{end - start}, TensorProto::INT64, {}};
  for (std::int64_t i = start; i < end; ++i) {
    const auto& dim = shape->dim(static_cast<int>(i));
    result.elements.push_back(dim.has_dim_value() ? static_cast<Number>(dim.dim_value())
                                                  : kUnknown);
  }
  return result;
}

Evaluated size_of(const Call& call) {
  const auto* shape = call.inputs.empty() ? nullptr : call.inputs[0].shape;
  if (shape == nullptr) return {};
  Number count = 1;
  for (const auto& dim : shape->dim()) {
    count *= dim.has_dim_value() ? static_cast<Number>(dim.dim_value()) : kUnknown;
  }
  return Constant{{}, TensorProto::INT64, {count}};
}

Evaluated view(const Call& call) {
  const Constant* input = call.input(0);
  const auto shape = call.output_shape();
  if (input == nullptr || !shape || count_of(*shape) != input->elements.size()) return {};
  return Constant{*shape, input->elem_type, input->elements};
}

Evaluated cast(const Call& call) {
  auto result = view(call);
  if (!result) return {};
  result->elem_type = call.elem_type();
  for (Number& element : result->elements) {
    if (!is_known(element)) continue;
    if (result->elem_type == TensorProto::BOOL)
      element = element != 0 ? 1 : 0;
    else if (is_integer_type(result->elem_type))
      element = std::trunc(element);
  }
  return result;
}

Evaluated gather(const Call& call) {
  const Constant* data = call.input(0);
  const Constant* indices = call.input(1);
  if (data == nullptr || indices == nullptr) return {};
  const auto axis = axis_of(call.integer("axis", 0), data->dims.size());
  if (!axis) return {};
  const Shape outer(data->dims.begin(), data->dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  const Shape inner(data->dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, data->dims.end());
  const auto extent = data->dims[*axis];
  const std::size_t block = count_of(inner);
  Constant result{outer, data->elem_type, {}};
  result.dims.insert(result.dims.end(), indices->dims.begin(), indices->dims.end());
  result.dims.insert(result.dims.end(), inner.begin(), inner.end());
  if (count_of(outer) * indices->elements.size() * block > kMaxConstantElements) return {};
  for (std::size_t o = 0; o < count_of(outer); ++o) {
    for (const Number element : indices->elements) {
      auto index = integer_of(element);
      if (!index) return {};
      if (*index < 0) *index += extent;
      if (*index < 0 || *index >= extent) return {};
      const std::size_t at =
          (o * static_cast<std::size_t>(extent) + static_cast<std::size_t>(*index)) * block;
      for (std::size_t i = 0; i < block; ++i) result.elements.push_back(data->elements[at + i]);
    }
  }
  return result;
}

Evaluated concat(const Call& call) {
  const auto shape = call.output_shape();
  const Constant* first = call.input(0);
  if (first == nullptr || first->dims.empty()) return {};
  const auto axis = axis_of(call.integer("axis", 0), first->dims.size());
  if (!axis) return {};
  Constant result{first->dims, first->elem_type, {}};
  result.dims[*axis] = 0;
  std::size_t outer = 1;
  for (std::size_t i = 0; i < *axis; ++i) outer *= static_cast<std::size_t>(first->dims[i]);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Constant* input = call.input(i);
    if (input == nullptr || input->dims.size() != first->dims.size()) return {};
    result.dims[*axis] += input->dims[*axis];
  }
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto& elements = call.input(i)->elements;
      const std::size_t block = elements.size() / outer;
      const auto at = elements.begin() + static_cast<std::ptrdiff_t>(o * block);
      result.elements.insert(result.elements.end(), at, at + static_cast<std::ptrdiff_t>(block));
    }
  }
  if (shape && *shape != result.dims) return {};
  if (result.elements.size() != count_of(result.dims)) return {};
  return result;
}

// Elements of one axis that a slice takes.
std::vector<std::size_t> slice_indexes(std::int64_t extent, std::int64_t start, std::int64_t end,
                                       std::int64_t step) {
  std::vector<std::size_t> indexes;
  if (start < 0) start += extent;
  if (end < 0 && end > std::numeric_limits<std::int64_t>::min() + extent) end += extent;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, extent);
    end = std::clamp<std::int64_t>(end, 0, extent);
    for (; start < end; start += std::min(step, extent)) {
      indexes.push_back(static_cast<std::size_t>(start));
    }
  } else {
    start = std::clamp<std::int64_t>(start, -1, extent - 1);
    end = std::clamp<std::int64_t>(end, -1, extent - 1);
    for (; start > end; start += std::max(step, -extent)) {
      indexes.push_back(static_cast<std::size_t>(start));
    }
  }
  return indexes;
}

// Keeps the given indexes of one axis.
Constant take(const Constant& data, std::size_t axis, const std::vector<std::size_t>& indexes) {
  Constant result{data.dims, data.elem_type, {}};
  result.dims[axis] = static_cast<std::int64_t>(indexes.size());
  std::size_t outer = 1;
  std::size_t inner = 1;
  for (std::size_t i = 0; i < data.dims.size(); ++i) {
    if (i < axis) outer *= static_cast<std::size_t>(data.dims[i]);
    if (i > axis) inner *= static_cast<std::size_t>(data.dims[i]);
  }
  for (std::size_t o = 0; o < outer; ++o) {
    for (const std::size_t index : indexes) {
      const auto at = data.elements.begin() +
                      static_cast<std::ptrdiff_t>(
                          (o * static_cast<std::size_t>(data.dims[axis]) + index) * inner);
      result.elements.insert(result.elements.end(), at, at + static_cast<std::ptrdiff_t>(inner));
    }
  }
  return result;
}

Evaluated slice(const Call& call) {
  const Constant* data = call.input(0);
  const auto starts = integers(call, 1, "starts");
  const auto ends = integers(call, 2, "ends");
  if (data == nullptr || !starts || !ends || starts->size() != ends->size()) return {};
  Shape axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (const auto given = integers(call, 3, "axes")) axes = *given;
  Shape steps(starts->size(), 1);
  if (const auto given = integers(call, 4, "steps")) steps = *given;
  if (axes.size() != starts->size() || steps.size() != starts->size()) return {};
  Constant result = *data;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], result.dims.size());
    if (!axis || steps[i] == 0) return {};
    result =
        take(result, *axis, slice_indexes(result.dims[*axis], (*starts)[i], (*ends)[i], steps[i]));
  }
  return result;
}

Evaluated transpose(const Call& call) {
  const Constant* data = call.input(0);
  if (data == nullptr) return {};
  const std::size_t rank = data->dims.size();
  Shape perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (const auto* found = call.attribute("perm"))
    perm.assign(found->ints().begin(), found->ints().end());
  if (perm.size() != rank) return {};
  std::vector<std::size_t> strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;)
    strides[i - 1] = strides[i] * static_cast<std::size_t>(data->dims[i]);
  Constant result{{}, data->elem_type, {}};
  for (const std::int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return {};
    result.dims.push_back(data->dims[static_cast<std::size_t>(axis)]);
  }
  const std::size_t count = data->elements.size();
  if (count_of(result.dims) != count) return {};
  for (std::size_t flat = 0; flat < count; ++flat) {
    std::size_t rest = flat;
    std::size_t from = 0;
    for (std::size_t i = rank; i-- > 0;) {
      const auto extent = static_cast<std::size_t>(result.dims[i]);
      from += rest % extent * strides[static_cast<std::size_t>(perm[i])];
      rest /= extent;
    }
    if (from >= count) return {};
    result.elements.push_back(data->elements[from]);
  }
  return result;
}

Evaluated range(const Call& call) {
  const Constant* start = call.input(0);
  const Constant* limit = call.input(1);
  const Constant* delta = call.input(2);
  if (start == nullptr || limit == nullptr || delta == nullptr) return {};
  if (start->elements.size() != 1 || limit->elements.size() != 1 || delta->elements.size() != 1)
    return {};
  const Number step = delta->elements[0];
  const Number count = std::ceil((limit->elements[0] - start->elements[0]) / step);
  if (!(count >= 0 && count <= static_cast<Number>(kMaxConstantElements))) return {};
  Constant result{{static_cast<std::int64_t>(count)}, start->elem_type, {}};
  for (std::int64_t i = 0; i < result.dims[0]; ++i) {
    result.elements.push_back(start->elements[0] + static_cast<Number>(i) * step);
  }
  return result;
}

Evaluated constant_of_shape(const Call& call) {
  const auto shape = call.output_shape();
  if (!shape) return {};
  Number fill = 0;
  if (const auto* found = call.attribute("value")) {
    const auto value = parse_tensor(found->t());
    if (!value || value->elements.size() != 1) return {};
    fill = value->elements[0];
  }
  return Constant{*shape, call.elem_type(), std::vector<Number>(count_of(*shape), fill)};
}

Evaluated expand(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape) return {};
  return broadcast(*data, *shape);
}

Evaluated non_zero(const Call& call) {
  const Constant* data = call.input(0);
  if (data == nullptr || data->dims.size() > 1 || !is_fully_known(*data)) return {};
  Constant result{{static_cast<std::int64_t>(data->dims.size()), 0}, TensorProto::INT64, {}};
  for (std::size_t i = 0; i < data->elements.size(); ++i) {
    if (data->elements[i] != 0) result.elements.push_back(static_cast<Number>(i));
  }
  result.dims[1] = static_cast<std::int64_t>(result.elements.size());
  return result;
}

// Whole-tensor reductions, which is all that shape arithmetic needs.
Evaluated reduce(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape || count_of(*shape) != 1 || data->elements.empty()) return {};
  const std::string& op = call.node.op_type();
  Number result = data->elements[0];
  for (std::size_t i = 1; i < data->elements.size(); ++i) {
    const Number next = data->elements[i];
    if (!is_known(next)) return {};
    if (op == "ReduceProd")
      result *= next;
    else if (op == "ReduceSum")
      result += next;
    else if (op == "ReduceMax")
      result = std::max(result, next);
    else
      result = std::min(result, next);
  }
  return Constant{*shape, data->elem_type, {result}};
}

Evaluated split(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape || data->dims.size() != 1 || shape->size() != 1) return {};
  std::size_t start = 0;
  if (const auto sizes = integers(call, 1, "split")) {
    for (int i = 0; i < call.output && i < static_cast<int>(sizes->size()); ++i) {
      start += static_cast<std::size_t>(
          std::max<std::int64_t>((*sizes)[static_cast<std::size_t>(i)], 0));
    }
  } else {
    start = static_cast<std::size_t>(call.output * (*shape)[0]);
  }
  const auto length = static_cast<std::size_t>((*shape)[0]);
  if (start + length > data->elements.size()) return {};
  const auto at = data->elements.begin() + static_cast<std::ptrdiff_t>(start);
  return Constant{*shape, data->elem_type, {at, at + static_cast<std::ptrdiff_t>(length)}};
}

Evaluated tile(const Call& call) {
  const Constant* data = call.input(0);
  const auto shape = call.output_shape();
  if (data == nullptr || !shape || shape->size() != 1 || data->elements.empty()) return {};
  Constant result{*shape, data->elem_type, {}};
  for (std::size_t i = 0; i < count_of(*shape); ++i) {
    result.elements.push_back(data->elements[i % data->elements.size()]);
  }
  return result;
}

using Evaluator = Evaluated (*)(const Call&);

const std::unordered_map<std::string_view, Evaluator>& evaluators() {
  static const std::unordered_map<std::string_view, Evaluator> table{
      {"Shape", shape_of},    {"Size", size_of},
      {"Identity", view},     {"Reshape", view},
      {"Squeeze", view},      {"Unsqueeze", view},
      {"Flatten", view},      {"Cast", cast},
      {"Gather", gather},     {"Concat", concat},
      {"Slice", slice},       {"Transpose", transpose},
      {"Range", range},       {"ConstantOfShape", constant_of_shape},
      {"Expand", expand},     {"NonZero", non_zero},
      {"ReduceProd", reduce}, {"ReduceSum", reduce},
      {"ReduceMax", reduce},  {"ReduceMin", reduce},
      {"Split", split},       {"Tile", tile},
  };
  return table;
}

}  // namespace

std::optional<Constant> evaluate(const NodeProto& node, const std::vector<EvaluatedInput>& inputs,
                                 const onnx::TypeProto& type, int output) {
  const Call call{node, inputs, type, output};
  const auto found = evaluators().find(node.op_type());
  Evaluated result;
  if (found != evaluators().end()) {
    result = found->second(call);
  } else if (output == 0) {
    result = evaluate_elementwise(node.op_type(), inputs, call.elem_type());
  }
  if (result && result->elements.size() > kMaxConstantElements) return {};
  return result;
}

}  // namespace rooftile::onnx_format
