#include "rooftile/readers/onnx/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "rooftile/base/text.h"
#include "rooftile/readers/onnx/conversion.h"

namespace rooftile::onnx_reader_detail {
namespace {

// Length of a valid UTF-8 sequence at the beginning, or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (length == 1) return byte(0) >= 0x20 && byte(0) != 0x7F ? 1 : 0;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;
  if (byte(0) == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxLength = 500;
  std::string result;
  while (!text.empty() && result.size() < kMaxLength) {
    const std::size_t length = sequence_length(text);
    if (length == 0)
      result.push_back('?');
    else
      result.append(text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string module_of_path(std::string_view node_name) {
  while (!node_name.empty() && node_name.front() == '/') node_name.remove_prefix(1);
  const std::size_t last = node_name.rfind('/');
  if (last == std::string_view::npos) return {};
  std::string module(node_name.substr(0, last));
  for (char& c : module) {
    if (c == '/') c = '.';
  }
  return module;
}

namespace {

// A Python list of strings: ['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d'].
std::vector<std::string> entries_of(const std::string& text) {
  std::vector<std::string> entries;
  for (std::size_t at = text.find('\''); at != std::string::npos;) {
    const std::size_t end = text.find('\'', at + 1);
    if (end == std::string::npos) break;
    entries.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('\'', end + 1);
  }
  return entries;
}

}  // namespace

// The last entry names the operator itself.
std::string module_of_scopes(const onnx_format::Node& node) {
  const auto entries = entries_of(onnx_format::metadata(node, "pkg.torch.onnx.name_scopes"));
  return entries.size() >= 2 ? entries[entries.size() - 2] : std::string();
}

std::string library_call(const onnx_format::Node& node) {
  const auto entries = entries_of(onnx_format::metadata(node, "pkg.torch.onnx.class_hierarchy"));
  return entries.empty() ? std::string() : entries.back();
}

std::string library_module(const onnx_format::Node& node) {
  const auto entries = entries_of(onnx_format::metadata(node, "pkg.torch.onnx.class_hierarchy"));
  return entries.size() >= 2 ? entries[entries.size() - 2] : std::string();
}

bool is_position_table(std::string_view name) {
  constexpr std::array<std::string_view, 3> kTables{"cos_cached", "sin_cached", "inv_freq"};
  return std::any_of(kTables.begin(), kTables.end(),
                     [&](std::string_view table) { return name.ends_with(table); });
}

bool is_parameter_name(std::string_view name) {
  if (name.starts_with("/") || name.starts_with("onnx::")) return false;
  if (contains(name, ".")) return true;
  // Parameters of the outermost module have no path.
  constexpr std::array<std::string_view, 7> kWords{"embed", "token", "weight", "bias",
                                                   "gamma", "beta",  "scale"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return contains(name, word); });
}

std::string module_of_parameter(std::string_view name) {
  constexpr std::array<std::string_view, 2> kEndings{".weight", ".bias"};
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) return std::string(name.substr(0, name.size() - ending.size()));
  }
  return {};
}

std::string snake_case(const std::string& op) {
  if (op == "IsNaN") return "is_nan";
  std::string result;
  for (std::size_t i = 0; i < op.size(); ++i) {
    const auto c = static_cast<unsigned char>(op[i]);
    const bool upper = std::isupper(c) != 0;
    const bool after_lower = i > 0 && std::islower(static_cast<unsigned char>(op[i - 1])) != 0;
    if (upper && after_lower) result.push_back('_');
    result.push_back(static_cast<char>(std::tolower(c)));
  }
  return result;
}

}  // namespace rooftile::onnx_reader_detail
