// Element types and shapes, spelled as in the text form.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rooftile/base/units.h"

namespace rooftile {

// tf32 is stored in 4 bytes and multiplied on Tensor Cores; fp8 and fp4 stand for all their
// variants, int8 and int4 for signed and unsigned.
enum class Dtype {
  fp64,
  fp32,
  tf32,
  fp16,
  bf16,
  fp8,
  fp4,
  int64,
  int32,
  int16,
  int8,
  int4,
  boolean
};

struct DtypeInfo {
  Dtype dtype;
  std::string_view name;
  int bits;  // as stored
};

inline constexpr std::array<DtypeInfo, 13> kDtypes{{{Dtype::fp64, "fp64", 64},
                                                    {Dtype::fp32, "fp32", 32},
                                                    {Dtype::tf32, "tf32", 32},
                                                    {Dtype::fp16, "fp16", 16},
                                                    {Dtype::bf16, "bf16", 16},
                                                    {Dtype::fp8, "fp8", 8},
                                                    {Dtype::fp4, "fp4", 4},
                                                    {Dtype::int64, "int64", 64},
                                                    {Dtype::int32, "int32", 32},
                                                    {Dtype::int16, "int16", 16},
                                                    {Dtype::int8, "int8", 8},
                                                    {Dtype::int4, "int4", 4},
                                                    {Dtype::boolean, "bool", 8}}};

constexpr const DtypeInfo& info(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }
constexpr std::string_view to_string(Dtype dtype) { return info(dtype).name; }
constexpr double size_in_bytes(Dtype dtype) { return info(dtype).bits / 8.0; }
constexpr Bytes storage(double elements, Dtype dtype) {
  return Bytes(elements * size_in_bytes(dtype));
}
constexpr bool is_16_bit_float(Dtype dtype) { return dtype == Dtype::fp16 || dtype == Dtype::bf16; }

constexpr std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const DtypeInfo& entry : kDtypes) {
    if (entry.name == text) return entry.dtype;
  }
  return std::nullopt;
}

// Sizes of up to a few axes, outermost first; written 224x224.
using Extents = std::vector<std::int64_t>;

// Product of the sizes, 1 for none; a double because hostile input overflows 64 bits.
inline double element_count(const Extents& extents) {
  double product = 1.0;
  for (const std::int64_t extent : extents) product *= static_cast<double>(extent);
  return product;
}

}  // namespace rooftile
