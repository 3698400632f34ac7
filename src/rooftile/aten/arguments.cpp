#include "rooftile/aten/arguments.h"

#include <array>
#include <utility>

#include "rooftile/base/text.h"
#include "rooftile/workload/validate.h"

namespace rooftile::aten_detail {
namespace {

constexpr std::size_t kMostAxes = 64;
constexpr std::size_t kMostNumbers = 65536;  // as many as a packed sequence has steps

using NamedType = std::pair<std::string_view, Dtype>;

constexpr std::array<NamedType, 19> kTypes{{
    {"float", Dtype::fp32},
    {"c10::Half", Dtype::fp16},
    {"c10::BFloat16", Dtype::bf16},
    {"double", Dtype::fp64},
    {"long int", Dtype::int64},
    {"long", Dtype::int64},
    {"int", Dtype::int32},
    {"short int", Dtype::int16},
    {"short", Dtype::int16},
    {"signed char", Dtype::int8},
    {"unsigned char", Dtype::int8},
    {"bool", Dtype::boolean},
    {"c10::Float8_e4m3fn", Dtype::fp8},
    {"c10::Float8_e5m2", Dtype::fp8},
    {"c10::Float8_e4m3fnuz", Dtype::fp8},
    {"c10::Float8_e5m2fnuz", Dtype::fp8},
    {"c10::qint8", Dtype::int8},
    {"c10::quint8", Dtype::int8},
    {"c10::qint32", Dtype::int32},
}};

// c10::ScalarType.
constexpr std::array<NamedType, 11> kTypeNumbers{{
    {"0", Dtype::int8},
    {"1", Dtype::int8},
    {"2", Dtype::int16},
    {"3", Dtype::int32},
    {"4", Dtype::int64},
    {"5", Dtype::fp16},
    {"6", Dtype::fp32},
    {"7", Dtype::fp64},
    {"11", Dtype::boolean},
    {"15", Dtype::bf16},
    {"24", Dtype::fp8},
}};

template <std::size_t kCount>
std::optional<Dtype> find_type(std::string_view text, const std::array<NamedType, kCount>& types) {
  for (const auto& [name, dtype] : types) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

bool is_list(std::string_view text) {
  return text.size() >= 2 && text.front() == '[' && text.back() == ']';
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0") return false;
  return std::nullopt;
}

std::vector<std::string_view> list_parts(std::string_view text) {
  text = trim(text.substr(1, text.size() - 2));
  if (text.empty()) return {};
  std::vector<std::string_view> parts = split(text, ',');
  for (std::string_view& part : parts) part = trim(part);
  return parts;
}

}  // namespace

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : dims) product *= size;
  return product;
}

std::optional<Dtype> parse_type(std::string_view type) { return find_type(type, kTypes); }

std::optional<Dtype> parse_type_number(std::string_view number) {
  return find_type(number, kTypeNumbers);
}

bool Arguments::is_tensor(std::size_t position) const {
  return position < arguments_.types.size() && position < arguments_.dims.size() &&
         parse_type(arguments_.types[position]).has_value();
}

std::optional<Tensor> Arguments::tensor(std::size_t position) const {
  if (!is_tensor(position)) return std::nullopt;
  Tensor tensor{.dims = arguments_.dims[position],
                .strides = {},
                .dtype = *parse_type(arguments_.types[position])};
  if (tensor.dims.empty() || tensor.dims.size() > kMostAxes) return std::nullopt;
  double elements = 1;
  for (const std::int64_t size : tensor.dims) {
    if (size < 1 || size > kMaxSize) return std::nullopt;
    elements *= static_cast<double>(size);
    if (elements > kMaxElements) return std::nullopt;
  }
  if (position >= arguments_.strides.size()) return tensor;
  const auto& strides = arguments_.strides[position];
  if (strides.size() != tensor.dims.size()) return tensor;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const auto reach = static_cast<double>(strides[axis]) * static_cast<double>(tensor.dims[axis]);
    if (strides[axis] < 0 || strides[axis] > kMaxSize || reach > kMaxElements) return tensor;
  }
  tensor.strides = strides;
  return tensor;
}

std::string_view Arguments::value(std::size_t position) const {
  if (position >= arguments_.values.size()) return {};
  return trim(arguments_.values[position]);
}

std::optional<std::int64_t> Arguments::integer(std::size_t position) const {
  return parse_integer(value(position));
}

std::optional<Extents> Arguments::integers(std::size_t position) const {
  const std::string_view text = value(position);
  if (!is_list(text)) {
    const auto number = parse_integer(text);
    return number ? std::optional(Extents{*number}) : std::nullopt;
  }
  Extents numbers;
  for (const std::string_view part : list_parts(text)) {
    const auto number = parse_integer(part);
    if (!number || numbers.size() == kMostNumbers) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// "[[2, 3], [4]]".
std::vector<Extents> Arguments::entries(std::size_t position) const {
  std::string_view text = value(position);
  if (!is_list(text)) return {};
  std::vector<Extents> tensors;
  text.remove_prefix(1);
  for (std::size_t begin = text.find('['); begin != std::string_view::npos;
       begin = text.find('[')) {
    const std::size_t end = text.find(']', begin);
    if (end == std::string_view::npos) return {};
    Extents dims;
    for (const std::string_view part : list_parts(text.substr(begin, end - begin + 1))) {
      const auto size = parse_integer(part);
      if (!size || *size < 0 || *size > kMaxSize || dims.size() == kMostAxes) return {};
      dims.push_back(*size);
    }
    if (element_count(dims) > kMaxElements) return {};
    tensors.push_back(std::move(dims));
    text.remove_prefix(end + 1);
  }
  return tensors;
}

std::vector<Extents> Arguments::list(std::size_t position) const {
  std::vector<Extents> tensors = entries(position);
  std::erase_if(tensors,
                [](const Extents& dims) { return dims.empty() || element_count(dims) <= 0; });
  return tensors;
}

std::optional<Dtype> Arguments::list_type(std::size_t position) const {
  constexpr std::string_view kBefore = "TensorList<";
  if (position >= arguments_.types.size()) return std::nullopt;
  std::string_view type = arguments_.types[position];
  if (!type.starts_with(kBefore) || !type.ends_with('>')) return std::nullopt;
  type.remove_prefix(kBefore.size());
  type.remove_suffix(1);
  return parse_type(type);
}

bool Arguments::is_absent(std::size_t position) const {
  return position < arguments_.values.size() && value(position).empty() &&
         position < arguments_.types.size() && arguments_.types[position].empty();
}

std::optional<Extents> Arguments::per_axis(std::size_t position, std::size_t axes) const {
  auto numbers = integers(position);
  if (!numbers) return std::nullopt;
  if (numbers->size() == 1) return Extents(axes, numbers->front());
  return numbers->size() == axes ? numbers : std::nullopt;
}

std::optional<bool> Arguments::flag(std::size_t position) const {
  return parse_flag(value(position));
}

std::optional<std::vector<bool>> Arguments::flags(std::size_t position) const {
  const std::string_view text = value(position);
  if (!is_list(text)) return std::nullopt;
  std::vector<bool> flags;
  for (const std::string_view part : list_parts(text)) {
    const auto flag = parse_flag(part);
    if (!flag || flags.size() == kMostNumbers) return std::nullopt;
    flags.push_back(*flag);
  }
  return flags;
}

std::vector<Op> valid(Body body, const Dtypes& dtypes, Phase phase) {
  Op op;
  op.body = std::move(body);
  op.dtypes = dtypes;
  op.phase = phase;
  if (find_invalid_dim(op)) return {};
  return {op};
}

}  // namespace rooftile::aten_detail
