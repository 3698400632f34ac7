#include "rooftile/formats/onnx/constant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "onnx/onnx_pb.h"

namespace rooftile::onnx_format {
namespace {

using onnx::TensorProto;

// IEEE binary16: a sign, 5 bits of exponent, 10 of fraction.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(std::int32_t stored) : bits(static_cast<std::uint16_t>(stored)) {}
  explicit operator Number() const {
    constexpr int kFraction = 1024, kLargest = 31;
    const int exponent = bits >> 10 & kLargest, fraction = bits % kFraction;
    const Number sign = bits >> 15 ? -1 : 1;
    if (exponent == kLargest) {
      return fraction == 0 ? sign * std::numeric_limits<Number>::infinity()
                           : std::numeric_limits<Number>::quiet_NaN();
    }
    const int whole = exponent == 0 ? fraction : kFraction + fraction;
    return sign * std::ldexp(static_cast<Number>(whole), std::max(exponent, 1) - 25);
  }
};

// The upper half of a float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(std::int32_t stored) : bits(static_cast<std::uint16_t>(stored)) {}
  explicit operator Number() const {
    const std::uint32_t whole = static_cast<std::uint32_t>(bits) << 16;
    float number = 0;
    std::memcpy(&number, &whole, sizeof(number));
    return static_cast<Number>(number);
  }
};

// Rounded to the nearest.
std::int32_t half_bits(Number number) {
  constexpr Number kLeastNormal = 0x1p-14L, kInfinite = 65520;
  const std::int32_t sign = std::signbit(number) ? 1 << 15 : 0;
  const Number size = std::fabs(number);
  if (std::isnan(number)) return 0x7e00;
  if (size >= kInfinite) return sign | 0x7c00;
  if (size < kLeastNormal) return sign | static_cast<std::int32_t>(std::lround(size * 0x1p24L));
  int exponent = 0;
  const Number mantissa = std::frexp(size, &exponent);  // from 1/2 to 1
  const auto fraction = static_cast<std::int32_t>(std::lround(mantissa * 2048)) - 1024;
  return sign | (((exponent + 14) << 10) + fraction);
}

std::int32_t bfloat16_bits(Number number) {
  const auto whole = static_cast<float>(number);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &whole, sizeof(bits));
  return static_cast<std::int32_t>(bits >> 16);
}

template <class T, class List>
bool copy_elements(const TensorProto& tensor, const List& list, std::size_t count,
                   std::vector<Number>& out) {
  if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != count * sizeof(T)) return false;
    for (std::size_t i = 0; i < count; ++i) {
      T element{};
      std::memcpy(&element, tensor.raw_data().data() + i * sizeof(T), sizeof(T));
      out.push_back(static_cast<Number>(element));
    }
    return true;
  }
  if (static_cast<std::size_t>(list.size()) != count) return false;
  for (const auto element : list) out.push_back(static_cast<Number>(static_cast<T>(element)));
  return true;
}

bool copy_by_type(const TensorProto& tensor, std::size_t count, std::vector<Number>& out) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT:
      return copy_elements<float>(tensor, tensor.float_data(), count, out);
    case TensorProto::DOUBLE:
      return copy_elements<double>(tensor, tensor.double_data(), count, out);
    case TensorProto::FLOAT16:
      return copy_elements<Half>(tensor, tensor.int32_data(), count, out);
    case TensorProto::BFLOAT16:
      return copy_elements<BFloat16>(tensor, tensor.int32_data(), count, out);
    case TensorProto::INT64:
      return copy_elements<std::int64_t>(tensor, tensor.int64_data(), count, out);
    case TensorProto::INT32:
      return copy_elements<std::int32_t>(tensor, tensor.int32_data(), count, out);
    case TensorProto::INT8:
      return copy_elements<std::int8_t>(tensor, tensor.int32_data(), count, out);
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return copy_elements<std::uint8_t>(tensor, tensor.int32_data(), count, out);
    default:
      return false;
  }
}

template <class T>
T saturate(Number number) {
  if (!(number > static_cast<Number>(std::numeric_limits<T>::min()))) {
    return std::numeric_limits<T>::min();
  }
  if (number >= static_cast<Number>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(number);
}

}  // namespace

bool is_known(Number number) { return !std::isnan(number); }

bool is_fully_known(const Constant& constant) {
  return std::all_of(constant.elements.begin(), constant.elements.end(), is_known);
}

bool is_integer_type(int elem_type) {
  switch (elem_type) {
    case TensorProto::INT64:
    case TensorProto::INT32:
    case TensorProto::INT16:
    case TensorProto::INT8:
    case TensorProto::UINT64:
    case TensorProto::UINT32:
    case TensorProto::UINT16:
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      return true;
    default:
      return false;
  }
}

std::optional<Constant> parse_tensor(const TensorProto& tensor) {
  if (tensor.data_location() == TensorProto::EXTERNAL || tensor.dims_size() > 8) return {};
  Constant result;
  result.elem_type = tensor.data_type();
  std::size_t count = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || dim > static_cast<std::int64_t>(kMaxConstantElements)) return {};
    count *= static_cast<std::size_t>(dim);
    if (count > kMaxConstantElements) return {};
    result.dims.push_back(dim);
  }
  if (!copy_by_type(tensor, count, result.elements)) return {};
  return result;
}

TensorProto to_tensor(const Constant& constant) {
  TensorProto tensor;
  tensor.set_data_type(constant.elem_type);
  for (const std::int64_t dim : constant.dims) tensor.add_dims(dim);
  for (const Number element : constant.elements) {
    switch (constant.elem_type) {
      case TensorProto::FLOAT:
        tensor.add_float_data(static_cast<float>(element));
        break;
      case TensorProto::DOUBLE:
        tensor.add_double_data(static_cast<double>(element));
        break;
      case TensorProto::INT64:
        tensor.add_int64_data(saturate<std::int64_t>(element));
        break;
      case TensorProto::FLOAT16:
        tensor.add_int32_data(half_bits(element));
        break;
      case TensorProto::BFLOAT16:
        tensor.add_int32_data(bfloat16_bits(element));
        break;
      default:
        tensor.add_int32_data(saturate<std::int32_t>(element));
        break;
    }
  }
  return tensor;
}

}  // namespace rooftile::onnx_format
