#include "rooftile/cli/arguments.h"

#include <fmt/format.h>

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

Result<Seconds> parse_duration(std::string_view text) {
  for (const DurationUnit& unit : kDurationUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = parse_number(trim(text.substr(0, text.size() - unit.name.size())));
    if (!number || !std::isfinite(*number) || *number < 0) break;
    return Seconds(*number * unit.seconds);
  }
  return fail("expected a time such as 40ms, found " + rooftile::quoted(text));
}

}  // namespace rooftile
