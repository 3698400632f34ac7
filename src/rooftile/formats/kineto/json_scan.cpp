#include "rooftile/formats/kineto/json_scan.h"

namespace rooftile {

JsonScan scan_container(JsonCursor& cursor) {
  constexpr unsigned kMostDepth = 64;
  const char* at = cursor.at;
  std::uint64_t open = 0;  // one bit a level: 1 = object
  unsigned depth = 0;
  for (;;) {
    at = json_scan::find_class<json_scan::kStructure>(at, cursor.end);
    if (at == cursor.end) return JsonScan::more;
    if (*at == '"') {
      JsonCursor inside{at, cursor.end};
      std::string_view text;
      if (scan_string(inside, text) != JsonScan::ok) return JsonScan::more;
      at = inside.at;
      continue;
    }
    const bool object = *at == '{' || *at == '}';
    if (*at == '{' || *at == '[') {
      if (++depth > kMostDepth) return JsonScan::bad;
      open = open << 1U | static_cast<std::uint64_t>(object);
    } else {
      if (((open & 1U) != 0) != object) return JsonScan::bad;
      open >>= 1U;
      --depth;
    }
    ++at;
    if (depth == 0) break;
  }
  cursor.at = at;
  return JsonScan::ok;
}

}  // namespace rooftile
