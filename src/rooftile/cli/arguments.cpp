#include "rooftile/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

struct DurationUnit {
  std::string_view name;
  double seconds;
};

// Longer names first: "ms" ends in "s" too.
constexpr std::array<DurationUnit, 6> kDurationUnits{
    {{"min", 60}, {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"ns", 1e-9}, {"s", 1}}};

struct DtypeName {
  std::string_view name;
  Dtype dtype;
};

// Rooftile's own name of each dtype first, then those of PyTorch, NumPy, JAX and papers. The block
// scales of mxfp8, mxfp4 and nvfp4 are not modelled.
constexpr auto kMathDtypes = std::to_array<DtypeName>({
    {"fp64", Dtype::fp64},
    {"float64", Dtype::fp64},
    {"double", Dtype::fp64},
    {"fp32", Dtype::fp32},
    {"float32", Dtype::fp32},
    {"float", Dtype::fp32},
    {"single", Dtype::fp32},
    {"tf32", Dtype::tf32},
    {"tensorfloat32", Dtype::tf32},
    {"fp16", Dtype::fp16},
    {"float16", Dtype::fp16},
    {"half", Dtype::fp16},
    {"bf16", Dtype::bf16},
    {"bfloat16", Dtype::bf16},
    {"fp8", Dtype::fp8},
    {"float8", Dtype::fp8},
    {"e4m3", Dtype::fp8},
    {"e5m2", Dtype::fp8},
    {"fp8_e4m3", Dtype::fp8},
    {"fp8_e5m2", Dtype::fp8},
    {"float8_e4m3", Dtype::fp8},
    {"float8_e4m3fn", Dtype::fp8},
    {"float8_e5m2", Dtype::fp8},
    {"mxfp8", Dtype::fp8},
    {"fp4", Dtype::fp4},
    {"float4", Dtype::fp4},
    {"e2m1", Dtype::fp4},
    {"float4_e2m1fn", Dtype::fp4},
    {"float4_e2m1fn_x2", Dtype::fp4},
    {"nvfp4", Dtype::fp4},
    {"mxfp4", Dtype::fp4},
    {"int8", Dtype::int8},
    {"i8", Dtype::int8},
    {"int4", Dtype::int4},
    {"i4", Dtype::int4},
});

Error unknown_dtype(std::string_view text, const std::string& key) {
  std::vector<std::string> names, own;
  for (const DtypeName& entry : kMathDtypes) {
    names.emplace_back(entry.name);
    if (entry.name == to_string(entry.dtype)) own.emplace_back(entry.name);
  }
  // "int64" is spelled right, but no GEMM runs in it.
  const auto near = parse_dtype(key) ? std::vector<std::string>{} : nearest(key, names);
  return {fmt::format("expected one of {}, found {}{}", join(own, ", "), rooftile::quoted(text),
                      near.empty() ? "" : fmt::format("; did you mean {}?", join(near, " or "))),
          ""};
}

Result<std::int64_t> parse_size(std::string_view text) {
  const auto size = parse_integer(text);
  if (!size || *size < 1)
    return fail("expected a whole number from 1, found " + rooftile::quoted(text));
  return *size;
}

// Name and value around the last '='.
Result<std::pair<std::string, std::string_view>> parse_named(std::string_view text,
                                                             std::string_view form) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(fmt::format("expected {}, found {}", form, rooftile::quoted(text)));
  }
  return std::pair(std::string(text.substr(0, equals)), text.substr(equals + 1));
}

}  // namespace

Result<std::pair<std::string, std::int64_t>> parse_named_size(std::string_view text) {
  const auto named = parse_named(text, "NAME=VALUE");
  if (!named) return tl::unexpected(named.error());
  const auto size = parse_size(named->second);
  if (!size) return tl::unexpected(size.error());
  return std::pair(named->first, *size);
}

Result<std::pair<std::string, Extents>> parse_named_shape(std::string_view text) {
  const auto named = parse_named(text, "INPUT=1x3x224x224");
  if (!named) return tl::unexpected(named.error());
  Extents shape;
  for (const std::string_view part : split(named->second, 'x')) {
    const auto size = parse_size(part);
    if (!size) return tl::unexpected(size.error());
    shape.push_back(*size);
  }
  return std::pair(named->first, shape);
}

Result<Dtype> parse_math_dtype(std::string_view text) {
  std::string key = lower(text);
  std::replace(key.begin(), key.end(), '-', '_');
  if (key.starts_with("torch.")) key.erase(0, 6);
  for (const DtypeName& entry : kMathDtypes) {
    if (entry.name == key) return entry.dtype;
  }
  return tl::unexpected(unknown_dtype(text, key));
}

namespace {

// Doublings of the first, and the last.
std::vector<std::int64_t> doublings(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first; size < last; size *= 2) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

}  // namespace

Result<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 25;  // what readers accept
  constexpr std::size_t kMost = 64;
  const std::size_t colon = text.find(':');
  const char separator = colon == std::string_view::npos ? ',' : ':';
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : split(text, separator)) {
    const auto size = parse_size(trim(part));
    if (!size) return fail(size.error().message + "; a range is 1:512, a list 1,3,8");
    if (*size > kLargest)
      return fail(fmt::format("expected at most {}, found {}", kLargest, *size));
    sizes.push_back(*size);
  }
  if (separator == ':') {
    if (sizes.size() != 2 || sizes[0] > sizes[1]) {
      return fail("expected FROM:TO with FROM not above TO, found " + rooftile::quoted(text));
    }
    return doublings(sizes[0], sizes[1]);
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > kMost) return fail(fmt::format("expected at most {} sizes", kMost));
  return sizes;
}

Result<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto number = parse_number(trim(text.substr(0, text.size() - (percent ? 1 : 0))));
  const double share = number.value_or(-1) / (percent ? 100 : 1);
  if (number && std::isfinite(share) && share >= 0 && share <= 1) return share;
  return fail("expected a share such as 2%, found " + rooftile::quoted(text));
}

Result<Seconds> parse_duration(std::string_view text) {
  for (const DurationUnit& unit : kDurationUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = parse_number(trim(text.substr(0, text.size() - unit.name.size())));
    if (!number || !std::isfinite(*number) || *number < 0) break;
    return Seconds(*number * unit.seconds);
  }
  return fail("expected a time such as 40ms, found " + rooftile::quoted(text));
}

Result<std::size_t> parse_memory(std::string_view text) {
  const std::string unit =
      lower(text.substr(std::min(text.find_first_not_of("0123456789. "), text.size())));
  const bool is_gib = unit == "gib" || unit == "gb" || unit == "g";
  const bool is_mib = unit == "mib" || unit == "mb" || unit == "m";
  const auto number = parse_number(trim(text.substr(0, text.size() - unit.size())));
  constexpr double kMost = 1e6;  // GiB
  if ((is_gib || is_mib) && number && *number > 0 && *number <= kMost) {
    return static_cast<std::size_t>(std::ldexp(*number, is_gib ? 30 : 20));
  }
  return fail("expected an amount of memory such as 512MiB, found " + rooftile::quoted(text));
}

}  // namespace rooftile
