#include "rooftile/workload/encoded_name.h"

#include <fmt/format.h>

#include <optional>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

constexpr std::string_view kEmptyName = "%";  // no other name is written so

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

}  // namespace

std::string encode_name(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '#' || c == '%' || c == ',' || c == '=') {
      encoded += fmt::format("%{:02X}", byte);
    } else {
      encoded += c;
    }
  }
  return encoded;
}

std::string decode_name(std::string_view text) {
  if (text == kEmptyName) return {};
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (low) {
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string encode_word(std::string_view text) {
  return text.empty() ? std::string(kEmptyName) : encode_name(text);
}

std::vector<std::string> decode_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view part : split(text, ',')) {
    if (!part.empty()) names.push_back(decode_name(part));
  }
  return names;
}

std::string encode_names(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) parts.push_back(encode_word(name));
  return join(parts, ",");
}

}  // namespace rooftile
