// Element-wise operators, reductions, casts and copies.
#include <algorithm>

#include "rooftile/base/text.h"
#include "rooftile/workload/aten_handlers.h"

namespace rooftile::aten_detail {
namespace {

constexpr std::string_view kArithmetic[] = {"add",
                                            "sub",
                                            "rsub",
                                            "mul",
                                            "div",
                                            "relu",
                                            "gelu",
                                            "silu",
                                            "sigmoid",
                                            "tanh",
                                            "exp",
                                            "log",
                                            "log2",
                                            "log1p",
                                            "expm1",
                                            "sqrt",
                                            "rsqrt",
                                            "square",
                                            "neg",
                                            "abs",
                                            "pow",
                                            "clamp",
                                            "clamp_min",
                                            "clamp_max",
                                            "where",
                                            "masked_fill",
                                            "hardtanh",
                                            "leaky_relu",
                                            "elu",
                                            "hardswish",
                                            "hardsigmoid",
                                            "mish",
                                            "softplus",
                                            "relu6",
                                            "prelu",
                                            "addcmul",
                                            "addcdiv",
                                            "lerp",
                                            "maximum",
                                            "minimum",
                                            "sin",
                                            "cos",
                                            "floor",
                                            "ceil",
                                            "round",
                                            "sign",
                                            "reciprocal",
                                            "remainder",
                                            "fmod",
                                            "atan2",
                                            "erf",
                                            "threshold",
                                            "native_dropout",
                                            "dropout",
                                            "threshold_backward",
                                            "gelu_backward",
                                            "silu_backward",
                                            "sigmoid_backward",
                                            "tanh_backward",
                                            "hardtanh_backward",
                                            "leaky_relu_backward",
                                            "elu_backward",
                                            "hardswish_backward",
                                            "mish_backward",
                                            "softplus_backward",
                                            "native_dropout_backward"};

// These write one byte an element.
constexpr std::string_view kComparisons[] = {
    "eq",         "ne",          "lt",          "le",    "gt",    "ge",      "logical_and",
    "logical_or", "logical_not", "logical_xor", "isnan", "isinf", "isfinite"};

constexpr std::string_view kFills[] = {"fill_", "zero_"};

constexpr std::string_view kReductions[] = {"sum", "mean", "amax", "amin", "prod",
                                            "any", "all",  "std",  "var",  "linalg_vector_norm"};

// add_ is add in place.
std::string_view without_in_place_mark(std::string_view name) {
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  return name;
}

// The tensors among the first arguments and the shape that they broadcast to.
struct Operands {
  std::vector<Tensor> tensors;
  Extents shape;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t size : shape) product *= size;
    return product;
  }
};

bool broadcast(const Extents& dims, Extents& shape) {
  if (dims.size() > shape.size()) shape.insert(shape.begin(), dims.size() - shape.size(), 1);
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    const std::int64_t size = dims[dims.size() - back];
    std::int64_t& common = shape[shape.size() - back];
    if (size != common && size != 1 && common != 1) return false;
    common = std::max(common, size);
  }
  return element_count(shape) <= 1e16;
}

// Empty where a tensor has no size or the shapes do not fit together. A tensor of no axes is a
// scalar.
std::optional<Operands> read_operands(const Arguments& arguments) {
  Operands operands;
  for (std::size_t position = 0; position < std::min<std::size_t>(arguments.count(), 8);
       ++position) {
    const auto tensor = arguments.tensor(position);
    if (!tensor) continue;
    if (!broadcast(tensor->dims, operands.shape)) return std::nullopt;
    operands.tensors.push_back(*tensor);
  }
  if (operands.tensors.empty()) return std::nullopt;
  return operands;
}

bool is_mask(const Tensor& tensor) { return tensor.dtype == Dtype::boolean; }

// The type of the tensors that are read whole; empty where these differ. Masks do not count.
std::optional<Dtype> common_dtype(const std::vector<Tensor>& tensors, std::int64_t elements) {
  std::optional<Dtype> common;
  for (const Tensor& tensor : tensors) {
    if (tensor.elements() != elements || is_mask(tensor)) continue;
    if (common && *common != tensor.dtype) return std::nullopt;
    common = tensor.dtype;
  }
  return common ? common : std::optional(tensors.front().dtype);
}

std::vector<Op> read_elementwise(std::string_view fn, const Arguments& arguments, bool compares) {
  const auto operands = read_operands(arguments);
  if (!operands) return {};
  const std::int64_t elements = operands->elements();
  const auto dtype = common_dtype(operands->tensors, elements);
  if (!dtype) return {};
  const auto whole = std::count_if(operands->tensors.begin(), operands->tensors.end(),
                                   [&](const Tensor& t) { return t.elements() == elements; });
  const Elementwise body{std::string(fn), elements, std::max<std::int64_t>(whole, 1)};
  const Dtype output = compares ? Dtype::boolean : *dtype;
  const bool backward = fn.size() > 9 && fn.substr(fn.size() - 9) == "_backward";
  return valid(body, Dtypes(*dtype, *dtype, output), backward ? Phase::dgrad : Phase::forward);
}

std::vector<Op> read_fill(const Arguments& arguments) {
  const auto target = arguments.tensor(0);
  if (!target) return {};
  return valid(Elementwise{"fill", target->elements(), 0}, Dtypes(target->dtype));
}

// sum(input), or with the axes to sum over as the second argument (of a norm the third).
std::vector<Op> read_reduction(std::string_view fn, const Arguments& arguments) {
  const auto input = arguments.tensor(0);
  if (!input) return {};
  const std::size_t axes_at = fn == "linalg_vector_norm" ? 2 : 1;
  std::int64_t outputs = 1;
  if (arguments.count() > axes_at) {
    const auto axes = arguments.integers(axes_at);
    if (!axes) return {};
    std::vector<bool> reduced(input->rank(), axes->empty());
    const auto rank = static_cast<std::int64_t>(input->rank());
    for (const std::int64_t axis : *axes) {
      if (axis < -rank || axis >= rank) return {};
      reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
    }
    for (std::size_t axis = 0; axis < input->rank(); ++axis) {
      if (!reduced[axis]) outputs *= input->size(axis);
    }
  }
  return valid(Reduction{std::string(fn), input->elements(), outputs}, Dtypes(input->dtype));
}

// Axes from the slowest to the fastest in memory, without those of size 1 and those that the source
// repeats (stride 0).
std::vector<std::size_t> memory_order(const Tensor& tensor, const Tensor& source) {
  std::vector<std::size_t> order;
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) > 1 && source.strides[axis] > 0) order.push_back(axis);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensor.strides[a] > tensor.strides[b];
  });
  return order;
}

std::vector<Op> moved(std::int64_t elements, Dtype from, Dtype to, bool reorders) {
  if (from != to) return valid(Cast{elements}, Dtypes(from, from, to));
  if (reorders) return valid(LayoutConversion{elements, {}}, Dtypes(from));
  return valid(Elementwise{"copy", elements, 1}, Dtypes(from));
}

// copy_(target, source, …): a change of type, of the order in memory, or neither. Without strides
// the last two cannot be told apart.
std::vector<Op> read_copy(const Arguments& arguments) {
  const auto target = arguments.tensor(0), source = arguments.tensor(1);
  if (!target || !source) return {};
  if (target->dtype != source->dtype) {
    return moved(target->elements(), source->dtype, target->dtype, false);
  }
  if (target->strides.empty() || source->strides.empty() || target->dims != source->dims) return {};
  return moved(target->elements(), source->dtype, target->dtype,
               memory_order(*target, *source) != memory_order(*source, *source));
}

// _to_copy(source, type, …); without another type it is a copy of unknown order.
std::vector<Op> read_conversion(const Arguments& arguments) {
  const auto source = arguments.tensor(0);
  const auto type = parse_type_number(arguments.value(1));
  if (!source || !type || *type == source->dtype) return {};
  return moved(source->elements(), source->dtype, *type, false);
}

}  // namespace

Answer copy_op(std::string_view name, const Arguments& arguments) {
  if (name == "copy_") return read_copy(arguments);
  if (name == "_to_copy") return read_conversion(arguments);
  return std::nullopt;
}

Answer elementwise_op(std::string_view name, const Arguments& arguments) {
  if (is_one_of(name, kFills)) return read_fill(arguments);
  const std::string_view fn = without_in_place_mark(name);
  if (is_one_of(fn, kArithmetic)) return read_elementwise(fn, arguments, false);
  if (is_one_of(fn, kComparisons)) return read_elementwise(fn, arguments, true);
  return std::nullopt;
}

Answer reduction_op(std::string_view name, const Arguments& arguments) {
  if (is_one_of(name, kReductions)) return read_reduction(name, arguments);
  return std::nullopt;
}

}  // namespace rooftile::aten_detail
