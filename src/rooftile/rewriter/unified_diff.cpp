#include "rooftile/rewriter/unified_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <vector>

#include "rooftile/base/path.h"
#include "rooftile/rewriter/line_changes.h"

namespace rooftile {
namespace {

using Lines = std::vector<std::string_view>;

constexpr std::size_t kContext = 3;

// With their newlines.
Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::size_t size = newline == std::string_view::npos ? text.size() : newline + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

// Quotes what would break the line, as git does; a tab ends names with spaces.
std::string file_name(std::string_view side, const std::string& path) {
  const std::string name = fmt::format("{}/{}", side, path);
  const bool plain = std::ranges::none_of(
      name, [](unsigned char c) { return c < 0x20 || c == 0x7F || c == '"' || c == '\\'; });
  if (plain) return name.find(' ') == std::string::npos ? name : name + '\t';
  std::string quoted = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted.append(1, '\\').append(1, c);
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\{:03o}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string path_in_diff(const std::string& path) {
  std::string name = normal_path(path);
  std::error_code error;
  if (name.starts_with("..")) name = std::filesystem::weakly_canonical(name, error).string();
  return name.substr(std::min(name.find_first_not_of('/'), name.size()));
}

// "12,7"; an empty range stands behind the line before it.
std::string range_text(std::size_t begin, std::size_t size) {
  if (size == 1) return std::to_string(begin + 1);
  return fmt::format("{},{}", size == 0 ? begin : begin + 1, size);
}

void add_lines(char mark, std::span<const std::string_view> lines, std::string& text) {
  for (const std::string_view line : lines) {
    text.append(1, mark).append(line);
    if (!line.ends_with('\n')) text += "\n\\ No newline at end of file\n";
  }
}

std::span<const std::string_view> part(const Lines& lines, std::size_t begin, std::size_t end) {
  return std::span(lines).subspan(begin, end - begin);
}

std::string hunk(const Lines& a, const Lines& b, std::span<const LineChange> changes) {
  const LineChange& first = changes.front();
  const LineChange& last = changes.back();
  const std::size_t before = std::min(kContext, first.a_begin);
  const std::size_t after = std::min(kContext, a.size() - last.a_end);
  const std::size_t a_begin = first.a_begin - before, b_begin = first.b_begin - before;
  std::string text =
      fmt::format("@@ -{} +{} @@\n", range_text(a_begin, last.a_end + after - a_begin),
                  range_text(b_begin, last.b_end + after - b_begin));
  std::size_t at = a_begin;
  for (const LineChange& change : changes) {
    add_lines(' ', part(a, at, change.a_begin), text);
    add_lines('-', part(a, change.a_begin, change.a_end), text);
    add_lines('+', part(b, change.b_begin, change.b_end), text);
    at = change.a_end;
  }
  add_lines(' ', part(a, at, last.a_end + after), text);
  return text;
}

}  // namespace

std::string unified_diff(const std::string& path, std::string_view before, std::string_view after) {
  const Lines a = lines_of(before), b = lines_of(after);
  const std::vector<LineChange> changes = line_changes(a, b);
  if (changes.empty()) return "";
  const std::string name = path_in_diff(path);
  std::string text = fmt::format("--- {}\n+++ {}\n", file_name("a", name), file_name("b", name));
  auto begin = changes.begin();
  while (begin != changes.end()) {
    auto end = std::next(begin);
    while (end != changes.end() && end->a_begin - std::prev(end)->a_end <= 2 * kContext) ++end;
    text += hunk(a, b, {begin, end});
    begin = end;
  }
  return text;
}

}  // namespace rooftile
