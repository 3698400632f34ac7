// Small text helpers shared by readers and reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rooftile {

std::string_view trim(std::string_view text);
// Parts between separators; empty parts are kept, an empty text has one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
// A whole decimal number, nothing around it; empty on overflow.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string lower(std::string_view text);
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
inline bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}
inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
// Of a constant table.
template <class Table>
bool is_one_of(std::string_view word, const Table& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}
// At most `limit` bytes of the text, control characters replaced, for error messages.
std::string quoted(std::string_view text, std::size_t limit = 60);
// As one word of a POSIX shell.
std::string shell_word(std::string_view text);
// The candidates nearest to `text` by edit distance, at most three and only close ones.
std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace rooftile
