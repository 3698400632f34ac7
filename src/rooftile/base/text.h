// Small text helpers shared by readers and reports.
#pragma once

#include <cstdint>
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
// At most `limit` bytes of the text, control characters replaced, for error messages.
std::string quoted(std::string_view text, std::size_t limit = 60);
// The candidates nearest to `text` by edit distance, at most three and only close ones.
std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace rooftile
