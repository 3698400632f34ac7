#include "rooftile/formats/kineto/json_values.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace rooftile {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;
constexpr std::int64_t kMostInteger = std::numeric_limits<std::int64_t>::max();

void append_code_point(std::string& text, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    add(point < 0x20 || point == 0x7f ? ' ' : point);
  } else if (point < 0x800) {
    add(0xc0 | point >> 6U);
    add(0x80 | (point & 0x3fU));
  } else if (point < 0x10000) {
    add(0xe0 | point >> 12U);
    add(0x80 | (point >> 6U & 0x3fU));
    add(0x80 | (point & 0x3fU));
  } else {
    add(0xf0 | point >> 18U);
    add(0x80 | (point >> 12U & 0x3fU));
    add(0x80 | (point >> 6U & 0x3fU));
    add(0x80 | (point & 0x3fU));
  }
}

std::size_t length_by_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

// Bytes of the UTF-8 character at the front; 0 if it is not valid (RFC 3629).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = length_by_lead(lead);
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool outside = (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) >= 0x90);
  return overlong || outside ? 0 : length;
}

// Four hexadecimal digits at the front, which are taken off.
std::optional<std::uint32_t> take_hex(std::string_view& text) {
  std::uint32_t value = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  text.remove_prefix(4);
  return value;
}

// Behind "\u": one code point, from two escapes where the first is half of a pair.
std::uint32_t take_unicode(std::string_view& text) {
  const auto high = take_hex(text);
  if (!high) return kReplacement;
  if (*high < 0xd800 || *high > 0xdfff) return *high;
  if (*high >= 0xdc00 || !text.starts_with("\\u")) return kReplacement;
  std::string_view rest = text.substr(2);
  const auto low = take_hex(rest);
  if (!low || *low < 0xdc00 || *low > 0xdfff) return kReplacement;
  text = rest;
  return 0x10000 + ((*high - 0xd800) << 10U) + (*low - 0xdc00);
}

void take_escape(std::string_view& text, std::string& result) {
  if (text.empty()) return;
  const char c = text.front();
  text.remove_prefix(1);
  switch (c) {
    case 'u':
      append_code_point(result, take_unicode(text));
      break;
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      result.push_back(' ');
      break;
    default:
      // A quote, a backslash, a slash; or the byte of an escape that JSON does not know.
      append_code_point(result, static_cast<unsigned char>(c) < 0x80 ? static_cast<unsigned char>(c)
                                                                     : kReplacement);
  }
}

// Exponents, and digits beyond what integers hold.
std::optional<std::int64_t> rounded(std::string_view number, double scale) {
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [at, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  value = std::floor(value * scale + 0.5);
  // 2^63 is the first double that int64 does not hold; NaN fails too.
  if (!(std::fabs(value) < 9223372036854775808.0)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string_view unquoted(std::string_view value) {
  const bool is_string = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return is_string ? value.substr(1, value.size() - 2) : value;
}

std::string decoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    if (text.front() == '\\') {
      text.remove_prefix(1);
      take_escape(text, result);
      continue;
    }
    const std::size_t length = character_length(text);
    if (length < 2) {
      append_code_point(result,
                        length == 0 ? kReplacement : static_cast<unsigned char>(text.front()));
    } else {
      result.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::optional<std::int64_t> integer_in(std::string_view value) {
  value = unquoted(value);
  std::int64_t integer = 0;
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, integer);
  if (error != std::errc()) return std::nullopt;
  if (at == end) return integer;
  // "7.0"
  return *at == '.' && std::string_view(at + 1, end).find_first_not_of('0') == std::string::npos
             ? std::optional(integer)
             : std::nullopt;
}

std::optional<std::int64_t> nanoseconds_in(std::string_view microseconds) {
  const std::string_view number = unquoted(microseconds);
  const bool negative = number.starts_with('-');
  const char* at = number.data() + (negative ? 1 : 0);
  const char* const end = number.data() + number.size();
  const auto is_digit = [&] { return at != end && *at >= '0' && *at <= '9'; };
  std::int64_t whole = 0;
  const char* const first = at;
  for (; is_digit(); ++at) {
    if (whole > kMostInteger / 10'000 - 10) return rounded(number, 1e3);
    whole = whole * 10 + (*at - '0');
  }
  if (at == first) return std::nullopt;
  std::int64_t fraction = 0;
  int carry = 0;
  if (at != end && *at == '.') {
    ++at;
    for (std::int64_t digit = 100; is_digit(); ++at, digit /= 10) {
      fraction += digit * (*at - '0');
      if (digit == 0 && carry == 0) carry = *at >= '5' ? 1 : -1;  // the fourth decimal decides
    }
  }
  if (at != end) return rounded(number, 1e3);
  const std::int64_t result = whole * 1000 + fraction + (carry > 0 ? 1 : 0);
  return negative ? -result : result;
}

}  // namespace rooftile
