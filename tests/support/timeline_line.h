// The words of one line of a recording's text form.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/workload/timeline.h"

namespace rooftile {

// The words, the free text between the fixed words and the keys, and the keys.
struct TextLine {
  std::vector<std::string_view> words;
  std::map<std::string_view, std::string_view> keys;

  std::string free_text(std::size_t from) const {
    std::string text;
    for (std::size_t i = from; i < words.size(); ++i) {
      if (!text.empty()) text += ' ';
      text += words[i];
    }
    return text;
  }
  std::string_view key(std::string_view name) const {
    const auto found = keys.find(name);
    return found == keys.end() ? std::string_view{} : found->second;
  }
};

TextLine words_of(std::string_view text);

// 10ns, 5us, 1.5ms or 2s.
std::optional<Nanoseconds> parse_time(std::string_view word);

// "[[1,2],[3],[]]" -> its inner lists.
std::vector<std::vector<std::int64_t>> parse_integer_lists(std::string_view text);

// "[a,b]" -> its items.
std::vector<std::string> parse_list(std::string_view text);

// "8,2" -> 8, 2, 1; no text -> zeros.
std::array<std::uint32_t, 3> parse_extents(std::string_view text);

}  // namespace rooftile
