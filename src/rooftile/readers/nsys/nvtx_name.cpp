#include "rooftile/readers/nsys/nvtx_name.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace rooftile {
namespace {

// Consumes one text after another from the front.
class NvtxCursor {
 public:
  explicit NvtxCursor(std::string_view text) : rest_(text) {}

  bool skip(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::int64_t> number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  // Up to the bracket that closes the one in front; empty where there is none.
  std::string_view brackets() {
    int depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '[') ++depth;
      if (rest_[i] == ']') --depth;
      if (depth > 0) continue;
      const std::string_view found = rest_.substr(0, i + (rest_[i] == ']' ? 1 : 0));
      rest_.remove_prefix(found.size());
      return found;
    }
    return {};
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// "[1, 2]"; the opening bracket is already consumed.
std::optional<std::vector<std::int64_t>> read_list(NvtxCursor& cursor) {
  std::vector<std::int64_t> values;
  if (cursor.skip("]")) return values;
  do {
    const auto value = cursor.number();
    if (!value) return std::nullopt;
    values.push_back(*value);
  } while (cursor.skip(", "));
  if (!cursor.skip("]")) return std::nullopt;
  return values;
}

// What follows the name, whole, or nothing.
std::optional<NvtxName> parse_suffix(std::string_view name, std::string_view suffix) {
  NvtxName parsed{name, false, std::nullopt, {}};
  NvtxCursor cursor(suffix);
  if (cursor.skip(", seq = ")) {
    parsed.sequence = cursor.number();
    if (!parsed.sequence) return std::nullopt;
  }
  if (cursor.skip(", op_id = ") && !cursor.number()) return std::nullopt;
  if (cursor.skip(", sizes = ")) {
    parsed.sizes = cursor.brackets();
    if (parsed.sizes.empty()) return std::nullopt;
  }
  if (cursor.skip(", input_op_ids = ") && cursor.brackets().empty()) return std::nullopt;
  if (!cursor.done()) return std::nullopt;
  parsed.is_operator = parsed.sequence.has_value() || !parsed.sizes.empty();
  return parsed;
}

bool has_operator_prefix(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{
      "aten::", "c10d::", "prims::", "autograd::engine::"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

NvtxName parse_nvtx_name(std::string_view text) {
  NvtxName parsed{text, false, std::nullopt, {}};
  for (const std::string_view mark : {", seq = ", ", op_id = ", ", sizes = "}) {
    const std::size_t at = text.find(mark);
    if (at == std::string_view::npos) continue;
    if (const auto found = parse_suffix(text.substr(0, at), text.substr(at))) {
      parsed = *found;
      break;
    }
  }
  parsed.is_operator = parsed.is_operator || has_operator_prefix(parsed.name);
  return parsed;
}

std::optional<std::vector<std::vector<std::int64_t>>> parse_nvtx_sizes(std::string_view sizes) {
  std::vector<std::vector<std::int64_t>> lists;
  NvtxCursor cursor(sizes);
  if (!cursor.skip("[")) return std::nullopt;
  if (cursor.skip("]")) return lists;
  do {
    if (!cursor.skip("[")) return std::nullopt;
    auto list = read_list(cursor);
    if (!list) return std::nullopt;
    lists.push_back(std::move(*list));
  } while (cursor.skip(", "));
  if (!cursor.skip("]") || !cursor.done()) return std::nullopt;
  return lists;
}

}  // namespace rooftile
