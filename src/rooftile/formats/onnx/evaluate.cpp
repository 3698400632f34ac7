#include "rooftile/formats/onnx/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/evaluate_call.h"
#include "rooftile/formats/onnx/evaluate_elementwise.h"

namespace rooftile::onnx_format {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using Evaluated = std::optional<Constant>;

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
