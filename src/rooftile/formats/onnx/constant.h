// Small tensors whose elements are known before the network runs: shapes, axes, indices.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "onnx/onnx_pb.h"
#include "rooftile/formats/onnx/graph.h"

namespace rooftile::onnx_format {

// x87's 64-bit mantissa holds every int64 and every double. NaN is an element that is not known.
using Number = long double;

inline constexpr Number kUnknown = std::numeric_limits<Number>::quiet_NaN();

inline constexpr std::size_t kMaxConstantElements = 4096;

struct Constant {
  Shape dims;
  int elem_type = 0;
  std::vector<Number> elements;
};

bool is_known(Number number);
bool is_fully_known(const Constant& constant);
bool is_integer_type(int elem_type);

// Nothing for large tensors, dropped or damaged data, and types other than numbers.
std::optional<Constant> parse_tensor(const onnx::TensorProto& tensor);

// The inverse, for a fully known constant.
onnx::TensorProto to_tensor(const Constant& constant);

}  // namespace rooftile::onnx_format
