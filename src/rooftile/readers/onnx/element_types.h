// ONNX element types as ours.
#pragma once

#include <optional>

#include "rooftile/workload/tensor.h"

namespace rooftile::onnx_reader_detail {

// Numbers of TensorProto.DataType. Nothing for strings, complex numbers and unknown types.
constexpr std::optional<Dtype> dtype_of(int elem_type) {
  switch (elem_type) {
    case 1:
      return Dtype::fp32;
    case 2:  // uint8
    case 3:
      return Dtype::int8;
    case 4:  // uint16
    case 5:
      return Dtype::int16;
    case 6:  // int32
    case 12:
      return Dtype::int32;
    case 7:  // int64
    case 13:
      return Dtype::int64;
    case 9:
      return Dtype::boolean;
    case 10:
      return Dtype::fp16;
    case 11:
      return Dtype::fp64;
    case 16:
      return Dtype::bf16;
    case 17:  // float8 e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e8m0
    case 18:
    case 19:
    case 20:
    case 24:
      return Dtype::fp8;
    case 21:  // uint4
    case 22:  // int4
    case 25:  // uint2
    case 26:
      return Dtype::int4;
    case 23:
      return Dtype::fp4;
    default:
      return std::nullopt;
  }
}

constexpr bool is_float(int elem_type) {
  const auto dtype = dtype_of(elem_type);
  return dtype && *dtype <= Dtype::fp4;
}

constexpr bool is_quantized(int elem_type) {
  const auto dtype = dtype_of(elem_type);
  return dtype == Dtype::int8 || dtype == Dtype::int4;
}

}  // namespace rooftile::onnx_reader_detail
