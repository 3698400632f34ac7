#include "rooftile/formats/python/source_text.h"

#include <algorithm>
#include <cstring>

namespace rooftile::python {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Bytes of the UTF-8 character at `at`, or 0 if it is none. Surrogates and overlong forms count as
// characters: the parser does not mind.
std::size_t character_size(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  std::size_t size = 0;
  if (lead >= 0xC2 && lead <= 0xDF) size = 2;
  if (lead >= 0xE0 && lead <= 0xEF) size = 3;
  if (lead >= 0xF0 && lead <= 0xF4) size = 4;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[at + i])) return 0;
  }
  return size;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return static_cast<signed char>(c) >= 0x09 && c != '\r'; });
}

bool contains(std::string_view bytes, std::string_view word) {
  return memmem(bytes.data(), bytes.size(), word.data(), word.size()) != nullptr;
}

}  // namespace

Result<std::string> clean_text(std::string bytes) {
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) {
    return fail("is UTF-16 text, expected UTF-8");
  }
  if (std::memchr(bytes.data(), 0, bytes.size()) != nullptr) return fail("is binary, not text");
  if (is_plain(bytes)) return bytes;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c >= 0x80) {
      const std::size_t size = character_size(bytes, i);
      if (size == 0) bytes[i] = '_';
      i += std::max<std::size_t>(size, 1);
      continue;
    }
    if (c < 0x09) bytes[i] = ' ';
    const bool ends_line = c == '\r' && (i + 1 == bytes.size() || bytes[i + 1] != '\n');
    if (ends_line) bytes[i] = '\n';
    ++i;
  }
  return bytes;
}

bool mentions_training(std::string_view bytes) {
  constexpr std::string_view kWords[] = {"torch", "lightning", "accelerate", "transformers",
                                         "deepspeed"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return contains(bytes, word); });
}

std::vector<std::uint32_t> line_starts(std::string_view text) {
  std::vector<std::uint32_t> starts{0};
  for (std::size_t at = 0; at < text.size();) {
    const void* found = std::memchr(text.data() + at, '\n', text.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) + 1;
    starts.push_back(static_cast<std::uint32_t>(at));
  }
  return starts;
}

}  // namespace rooftile::python
