#include "rooftile/base/quantity_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace rooftile {
namespace {

struct Unit {
  double size;
  std::string_view name;
};

constexpr std::array<Unit, 4> kTimeUnits{{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
constexpr std::array<Unit, 6> kDecimalUnits{
    {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
constexpr std::array<Unit, 5> kCountUnits{
    {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};  // B: billions of parameters
constexpr std::array<Unit, 5> kBinaryUnits{{{1099511627776.0, "TiB"},
                                            {1073741824.0, "GiB"},
                                            {1048576.0, "MiB"},
                                            {1024.0, "KiB"},
                                            {1.0, "B"}}};

double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double exponent = std::floor(std::log10(std::abs(value)));
  const double step = std::pow(10.0, exponent - digits + 1);
  return std::round(value / step) * step;
}

// The largest unit of which the next smaller one would leave four digits, judged after rounding:
// 999.9 µs are 1.00 ms, 1000 MiB 0.977 GiB.
const Unit& unit_for(double value, std::span<const Unit> units) {
  const double step = units.front().size == kBinaryUnits.front().size ? 1024 : 1000;
  for (const Unit& unit : units) {
    if (rounded(std::abs(value) / unit.size * step, 3) >= 1000) return unit;
  }
  return units.back();
}

std::string with_unit(double value, std::span<const Unit> units, std::string_view suffix) {
  // Nothing has no scale: "0 s" and not "0 ns".
  const Unit& unit = value == 0 && units.front().size == 1 ? units.front() : unit_for(value, units);
  const std::string number = digits_text(value / unit.size);
  if (unit.name.empty() && suffix.empty()) return number;
  return fmt::format("{} {}{}", number, unit.name, suffix);
}

}  // namespace

std::string digits_text(double value, int digits) {
  const double number = rounded(value, digits);
  if (number == 0) return "0";
  if (!std::isfinite(number)) return "unknown";
  // A hair above the exponent's floor: rounding may leave 9.999999 where 10 is meant.
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(number)) + 1e-9));
  return fmt::format("{:.{}f}", number, std::max(0, digits - 1 - exponent));
}

std::string time_text(Seconds time) { return with_unit(time.value(), kTimeUnits, ""); }

std::string range_text(const Range<Seconds>& range) {
  const double reference = range.high.value() != 0 ? range.high.value() : range.low.value();
  const Unit& unit = reference == 0 ? kTimeUnits.front() : unit_for(reference, kTimeUnits);
  // A low end far below the high one is as good as nothing: two decimals are enough.
  const double exact_low = range.low.value() / unit.size;
  const double rounded_low = std::round(exact_low * 100) / 100;
  const std::string low =
      std::abs(rounded_low) < 0.1 ? digits_text(rounded_low, 1) : digits_text(exact_low, 2);
  const std::string high = digits_text(range.high.value() / unit.size, 2);
  if (low == high) return fmt::format("{} {}", low, unit.name);
  return fmt::format("{}–{} {}", low, high, unit.name);
}

std::string flop_text(Flop work) { return with_unit(work.value(), kDecimalUnits, "FLOP"); }

std::string rate_text(FlopPerSecond rate) {
  return with_unit(rate.value(), kDecimalUnits, "FLOP/s");
}

std::string rate_text(BytesPerSecond rate) { return with_unit(rate.value(), kDecimalUnits, "B/s"); }

std::string traffic_text(Bytes moved) { return with_unit(moved.value(), kDecimalUnits, "B"); }

std::string bytes_text(Bytes size) { return with_unit(size.value(), kBinaryUnits, ""); }

std::string bytes_text(const Range<Bytes>& range) {
  const double unit = unit_for(range.expected.value(), kBinaryUnits).size;
  const std::string low = digits_text(range.low.value() / unit);
  const std::string high = digits_text(range.high.value() / unit);
  const std::string expected = bytes_text(range.expected);
  return low == high ? expected : fmt::format("{} ({}–{})", expected, low, high);
}

std::string count_text(double count) {
  if (count < 1e4 && count == std::floor(count)) {
    if (count < 1e3) return fmt::format("{:.0f}", count);
    const int whole = static_cast<int>(count);
    return fmt::format("{},{:03}", whole / 1000, whole % 1000);
  }
  return with_unit(count, kCountUnits, "");
}

std::string change_text(double fraction) {
  const double percent = 100 * fraction;
  const double size = std::abs(percent);
  return fmt::format("{:+.{}f} %", percent, size < 1 ? 2 : size < 10 ? 1 : 0);
}

std::string share_text(double share) {
  const double percent = share * 100;
  if (!std::isfinite(percent)) return "unknown";
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return fmt::format("{} %",
                     percent >= 10 ? fmt::format("{:.0f}", percent) : digits_text(percent, 2));
}

}  // namespace rooftile
