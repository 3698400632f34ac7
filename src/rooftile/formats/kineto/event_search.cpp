#include "rooftile/formats/kineto/event_search.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace rooftile {
namespace {

bool starts_like_event(JsonCursor text) {
  static constexpr std::array<std::string_view, 9> kFirstKeys{"ph", "cat", "name", "pid", "tid",
                                                              "ts", "dur", "id",   "args"};
  ++text.at;
  text.skip_space();
  std::string_view key;
  if (text.done() || *text.at != '"' || scan_string(text, key) != JsonScan::ok) return false;
  text.skip_space();
  return !text.done() && *text.at == ':' &&
         std::find(kFirstKeys.begin(), kFirstKeys.end(), key) != kFirstKeys.end();
}

bool follows_separator(const char* first, const char* brace) {
  first = brace - std::min<std::ptrdiff_t>(brace - first, kEventStartBytes);
  while (brace != first && static_cast<unsigned char>(brace[-1]) <= ' ') --brace;
  return brace != first && (brace[-1] == ',' || brace[-1] == '[');
}

}  // namespace

const char* find_event(const JsonCursor& text) {
  for (const char* at = text.at; at != text.end; ++at) {
    at = static_cast<const char*>(std::memchr(at, '{', static_cast<std::size_t>(text.end - at)));
    if (at == nullptr) return nullptr;
    // The key is within a few bytes; a lost quote must not make each try scan the whole text.
    const char* const limit = at + std::min<std::ptrdiff_t>(text.end - at, kEventStartBytes);
    if (follows_separator(text.at, at) && starts_like_event({at, limit})) return at;
  }
  return nullptr;
}

}  // namespace rooftile
