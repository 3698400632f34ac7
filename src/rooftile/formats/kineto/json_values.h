// The values of JSON text that json_scan found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rooftile/formats/kineto/json_scan.h"

namespace rooftile {

// What is between the quotes of a string, or the value itself; escapes stay.
std::string_view unquoted(std::string_view value);
// Text between quotes with its escapes undone, always valid UTF-8: what is not becomes U+FFFD, and
// a control character a space.
std::string decoded(std::string_view text);
// A whole number, also between quotes or written as "7.0"; empty beyond int64.
std::optional<std::int64_t> integer_in(std::string_view value);
// A decimal number of microseconds as nanoseconds, rounded half up, exact where it has up to three
// decimals; also between quotes. Empty for NaN, other text, and beyond int64.
std::optional<std::int64_t> nanoseconds_in(std::string_view microseconds);

// Calls take(value) for each element of a list; false when the text is no list.
template <class Take>
bool each_element(std::string_view list, const Take& take) {
  if (!list.starts_with('[')) return false;
  JsonCursor cursor{list.data() + 1, list.data() + list.size()};
  for (;;) {
    cursor.skip_space();
    if (cursor.done()) return false;
    if (*cursor.at == ']') return true;
    if (*cursor.at == ',') {
      ++cursor.at;
      continue;
    }
    std::string_view value;
    if (scan_value(cursor, value) != JsonScan::ok) return false;
    take(value);
  }
}

// Calls take(key, value) for each member of an object; false when the text is no object.
template <class Take>
bool each_member(std::string_view object, const Take& take) {
  if (!object.starts_with('{')) return false;
  JsonCursor cursor{object.data(), object.data() + object.size()};
  return scan_members(cursor, [&](std::string_view key) {
           std::string_view value;
           const JsonScan result = scan_value(cursor, value);
           if (result == JsonScan::ok) take(key, value);
           return result;
         }) == JsonScan::ok;
}

}  // namespace rooftile
