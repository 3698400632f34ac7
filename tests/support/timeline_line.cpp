#include "tests/support/timeline_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rooftile/base/text.h"

namespace rooftile {
namespace {

constexpr std::array<std::string_view, 22> kKeys{
    "id",   "seq",   "dims",  "strides", "types",      "values", "corr", "grid",
    "regs", "block", "bytes", "shared",  "collective", "dtype",  "in",   "out",
    "sms",  "group", "ranks", "cc",      "memory",     "device"};

bool is_key(std::string_view word, std::size_t equals) {
  return equals != std::string_view::npos &&
         (word.substr(0, equals) == "allocated" || word.substr(0, equals) == "reserved" ||
          std::find(kKeys.begin(), kKeys.end(), word.substr(0, equals)) != kKeys.end());
}

}  // namespace

TextLine words_of(std::string_view text) {
  TextLine line;
  for (std::string_view word : split(text, ' ')) {
    word = trim(word);
    if (word == "#") break;
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (is_key(word, equals)) {
      line.keys[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      line.words.push_back(word);
    }
  }
  return line;
}

std::optional<Nanoseconds> parse_time(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  for (const auto& [unit, factor] : kUnits) {
    if (!word.ends_with(unit)) continue;
    const auto number = parse_number(word.substr(0, word.size() - unit.size()));
    if (number) return std::llround(*number * factor);
  }
  return std::nullopt;
}

namespace {

// "[[1,2],[3],[]]" -> its inner lists, "[a,b]" -> one list.
std::vector<std::vector<std::string>> parse_lists(std::string_view text) {
  std::vector<std::vector<std::string>> lists;
  if (text.starts_with("[[") || text == "[]") text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t open = text.find('[');
    const std::size_t close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    lists.emplace_back();
    const std::string_view inner = text.substr(open + 1, close - open - 1);
    if (!inner.empty()) {
      for (const std::string_view item : split(inner, ',')) lists.back().emplace_back(item);
    }
    text = text.substr(close + 1);
  }
  return lists;
}

}  // namespace

std::vector<std::vector<std::int64_t>> parse_integer_lists(std::string_view text) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const auto& list : parse_lists(text)) {
    lists.emplace_back();
    for (const std::string& item : list) lists.back().push_back(parse_integer(item).value_or(0));
  }
  return lists;
}

std::vector<std::string> parse_list(std::string_view text) {
  const auto lists = parse_lists(text);
  return lists.empty() ? std::vector<std::string>{} : lists.front();
}

std::array<std::uint32_t, 3> parse_extents(std::string_view text) {
  std::array<std::uint32_t, 3> extents{};
  if (text.empty()) return extents;
  extents = {1, 1, 1};
  const auto parts = split(text, ',');
  for (std::size_t i = 0; i < std::min(parts.size(), extents.size()); ++i) {
    extents.at(i) = static_cast<std::uint32_t>(parse_integer(parts[i]).value_or(0));
  }
  return extents;
}

}  // namespace rooftile
