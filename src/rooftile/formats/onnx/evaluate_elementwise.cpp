#include "rooftile/formats/onnx/evaluate_elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {
namespace {

using Unary = Number (*)(Number);
using Binary = Number (*)(Number, Number);

const std::unordered_map<std::string_view, Unary>& unary_functions() {
  static const std::unordered_map<std::string_view, Unary> table{
      {"Neg", [](Number x) { return -x; }},
      {"Abs", [](Number x) { return std::fabs(x); }},
      {"Floor", [](Number x) { return std::floor(x); }},
      {"Ceil", [](Number x) { return std::ceil(x); }},
      {"Round", [](Number x) { return std::nearbyint(x); }},
      {"Sqrt", [](Number x) { return std::sqrt(x); }},
      {"Exp", [](Number x) { return std::exp(x); }},
      {"Log", [](Number x) { return std::log(x); }},
      {"Reciprocal", [](Number x) { return 1 / x; }},
      {"Not", [](Number x) { return x == 0 ? Number{1} : Number{0}; }},
  };
  return table;
}

Number truth(bool value) { return value ? 1 : 0; }

const std::unordered_map<std::string_view, Binary>& binary_functions() {
  static const std::unordered_map<std::string_view, Binary> table{
      {"Add", [](Number a, Number b) { return a + b; }},
      {"Sub", [](Number a, Number b) { return a - b; }},
      {"Mul", [](Number a, Number b) { return a * b; }},
      {"Div", [](Number a, Number b) { return a / b; }},
      {"Pow", [](Number a, Number b) { return std::pow(a, b); }},
      {"Mod", [](Number a, Number b) { return a - b * std::floor(a / b); }},
      {"Min", [](Number a, Number b) { return std::min(a, b); }},
      {"Max", [](Number a, Number b) { return std::max(a, b); }},
      {"Equal", [](Number a, Number b) { return truth(a == b); }},
      {"Greater", [](Number a, Number b) { return truth(a > b); }},
      {"GreaterOrEqual", [](Number a, Number b) { return truth(a >= b); }},
      {"Less", [](Number a, Number b) { return truth(a < b); }},
      {"LessOrEqual", [](Number a, Number b) { return truth(a <= b); }},
      {"And", [](Number a, Number b) { return truth(a != 0 && b != 0); }},
      {"Or", [](Number a, Number b) { return truth(a != 0 || b != 0); }},
  };
  return table;
}

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) return {};
    result[result.size() - 1 - i] = left == 1 ? right : left;
  }
  if (element_count(result) > static_cast<double>(kMaxConstantElements)) return {};
  return result;
}

std::optional<Constant> apply_unary(Unary function, const Constant& input, int elem_type) {
  Constant result{input.dims, elem_type, input.elements};
  for (Number& element : result.elements) {
    element = is_known(element) ? function(element) : kUnknown;
  }
  return result;
}

std::optional<Constant> apply_binary(Binary function, const Constant& a, const Constant& b,
                                     int elem_type) {
  const auto shape = broadcast_shape(a.dims, b.dims);
  if (!shape) return {};
  auto left = broadcast(a, *shape);
  const auto right = broadcast(b, *shape);
  if (!left || !right) return {};
  left->elem_type = elem_type;
  for (std::size_t i = 0; i < left->elements.size(); ++i) {
    const Number x = left->elements[i];
    const Number y = right->elements[i];
    Number value = is_known(x) && is_known(y) ? function(x, y) : kUnknown;
    if (is_integer_type(a.elem_type)) value = std::trunc(value);
    left->elements[i] = std::isfinite(value) ? value : kUnknown;
  }
  return left;
}

std::optional<Constant> where(const Constant& condition, const Constant& a, const Constant& b) {
  auto shape = broadcast_shape(condition.dims, a.dims);
  if (shape) shape = broadcast_shape(*shape, b.dims);
  if (!shape) return {};
  const auto choice = broadcast(condition, *shape);
  auto left = broadcast(a, *shape);
  const auto right = broadcast(b, *shape);
  if (!choice || !left || !right) return {};
  for (std::size_t i = 0; i < left->elements.size(); ++i) {
    if (!is_known(choice->elements[i]))
      left->elements[i] = kUnknown;
    else if (choice->elements[i] == 0)
      left->elements[i] = right->elements[i];
  }
  return left;
}

}  // namespace

std::optional<Constant> broadcast(const Constant& tensor, const Shape& shape) {
  if (tensor.dims == shape) return tensor;
  if (tensor.dims.size() > shape.size()) return {};
  const std::size_t lead = shape.size() - tensor.dims.size();
  std::vector<std::size_t> strides(shape.size(), 0);
  std::size_t stride = 1;
  for (std::size_t i = tensor.dims.size(); i-- > 0;) {
    if (tensor.dims[i] != shape[lead + i] && tensor.dims[i] != 1) return {};
    if (tensor.dims[i] != 1) strides[lead + i] = stride;
    stride *= static_cast<std::size_t>(tensor.dims[i]);
  }
  Constant result{shape, tensor.elem_type, {}};
  const auto count = static_cast<std::size_t>(element_count(shape));
  for (std::size_t flat = 0; flat < count; ++flat) {
    std::size_t rest = flat;
    std::size_t from = 0;
    for (std::size_t i = shape.size(); i-- > 0;) {
      from += rest % static_cast<std::size_t>(shape[i]) * strides[i];
      rest /= static_cast<std::size_t>(shape[i]);
    }
    if (from >= tensor.elements.size()) return {};
    result.elements.push_back(tensor.elements[from]);
  }
  return result;
}

std::optional<Constant> evaluate_elementwise(std::string_view op,
                                             const std::vector<EvaluatedInput>& inputs,
                                             int elem_type) {
  for (const EvaluatedInput& input : inputs) {
    if (input.constant == nullptr) return {};
  }
  if (inputs.size() == 1) {
    const auto found = unary_functions().find(op);
    if (found != unary_functions().end()) {
      return apply_unary(found->second, *inputs[0].constant, elem_type);
    }
  }
  if (inputs.size() == 2) {
    const auto found = binary_functions().find(op);
    if (found != binary_functions().end()) {
      return apply_binary(found->second, *inputs[0].constant, *inputs[1].constant, elem_type);
    }
  }
  if (inputs.size() == 3 && op == "Where") {
    return where(*inputs[0].constant, *inputs[1].constant, *inputs[2].constant);
  }
  return {};
}

}  // namespace rooftile::onnx_format
