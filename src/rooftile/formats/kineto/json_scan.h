// Finds the parts of JSON text without reading more into it than needed: strings with control
// characters, NaN, huge integers and invalid UTF-8 pass.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace rooftile {

// `more`: the text ended inside; the same bytes and what follows them may be scanned again.
enum class JsonScan : std::uint8_t { ok, more, bad };

struct JsonCursor {
  const char* at;
  const char* end;

  bool done() const { return at == end; }
  // Control characters outside of strings count as space.
  void skip_space() {
    while (at != end && static_cast<unsigned char>(*at) <= ' ') ++at;
  }
};

namespace json_scan {

// A byte's top bit is set where `word` has `byte`; bytes above the first hit may be wrong.
inline std::uint64_t bytes_equal(std::uint64_t word, std::uint64_t byte) {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  const std::uint64_t other = word ^ (kOnes * byte);
  return (other - kOnes) & ~other & (kOnes << 7U);
}

// The next quote or backslash, or the end.
inline const char* find_quote(const char* at, const char* end) {
  if constexpr (std::endian::native == std::endian::little) {
    for (; end - at >= 8; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, 8);
      const std::uint64_t hits = bytes_equal(word, '"') | bytes_equal(word, '\\');
      if (hits != 0) return at + std::countr_zero(hits) / 8;
    }
  }
  while (at != end && *at != '"' && *at != '\\') ++at;
  return at;
}

inline constexpr std::uint8_t kStructure = 1, kScalarEnd = 2;

inline constexpr auto kClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  for (const char c : {'"', '[', ']', '{', '}'}) {
    classes[static_cast<unsigned char>(c)] = kStructure;
  }
  for (const char c : {',', ']', '}', '"', ':'}) {
    classes[static_cast<unsigned char>(c)] |= kScalarEnd;
  }
  for (unsigned c = 0; c <= ' '; ++c) classes[c] |= kScalarEnd;
  return classes;
}();

template <std::uint8_t mask>
const char* find_class(const char* at, const char* end) {
  while (at != end && (kClasses[static_cast<unsigned char>(*at)] & mask) == 0) ++at;
  return at;
}

}  // namespace json_scan

// From the opening quote to behind the closing one; `text` is what lies between, escapes and all.
inline JsonScan scan_string(JsonCursor& cursor, std::string_view& text) {
  const char* const first = cursor.at + 1;
  const char* at = first;
  for (;;) {
    at = json_scan::find_quote(at, cursor.end);
    if (at == cursor.end) return JsonScan::more;
    if (*at == '"') break;
    if (cursor.end - at < 2) return JsonScan::more;
    at += 2;
  }
  text = {first, static_cast<std::size_t>(at - first)};
  cursor.at = at + 1;
  return JsonScan::ok;
}

// A list or an object with all that is in it. Brackets must match; depth at most 64.
JsonScan scan_container(JsonCursor& cursor);

// Any value, as written: strings with their quotes.
inline JsonScan scan_value(JsonCursor& cursor, std::string_view& value) {
  const char* const first = cursor.at;
  JsonScan result = JsonScan::ok;
  if (*first == '"') {
    std::string_view text;
    result = scan_string(cursor, text);
  } else if (*first == '[' || *first == '{') {
    result = scan_container(cursor);
  } else {
    cursor.at = json_scan::find_class<json_scan::kScalarEnd>(first, cursor.end);
    if (cursor.done()) return JsonScan::more;
    if (cursor.at == first) return JsonScan::bad;
  }
  value = {first, static_cast<std::size_t>(cursor.at - first)};
  return result;
}

// Members of an object from its opening brace to behind the closing one. take(key) must scan the
// value at the cursor. Missing and doubled commas pass.
template <class Take>
JsonScan scan_members(JsonCursor& cursor, const Take& take) {
  ++cursor.at;
  for (;;) {
    cursor.skip_space();
    if (cursor.done()) return JsonScan::more;
    const char c = *cursor.at;
    if (c == ',' || c == '}') ++cursor.at;
    if (c == '}') return JsonScan::ok;
    if (c == ',') continue;
    if (c != '"') return JsonScan::bad;
    std::string_view key;
    if (scan_string(cursor, key) != JsonScan::ok) return JsonScan::more;
    cursor.skip_space();
    if (cursor.done()) return JsonScan::more;
    if (*cursor.at != ':') return JsonScan::bad;
    ++cursor.at;
    cursor.skip_space();
    if (cursor.done()) return JsonScan::more;
    if (const JsonScan result = take(key); result != JsonScan::ok) return result;
  }
}

}  // namespace rooftile
